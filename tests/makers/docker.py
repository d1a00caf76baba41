"""A stand-in for Docker's socket, where no Docker is: it saves and loads one image."""

import io
import json
import socketserver
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.component.servers import serving


@dataclass
class Docker:
    """One daemon: images by any name, with the files that it saves of each.

    `error` is what it says instead of loading, `pulls` what it says of each further pull; it keeps
    the names that images were given, the paths of all requests, and each pull's login.
    """

    socket: Path
    images: dict[str, dict[str, bytes]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    error: str = ""
    pulls: list[tuple[int, list[dict[str, Any]]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)

    def saved(self, image: str) -> bytes:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            folder = tarfile.TarInfo("blobs")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            for path, content in self.images[image].items():
                member = tarfile.TarInfo(path)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return archive.getvalue()

    def load(self, archive: bytes) -> None:
        """Take what `docker load` reads; the image is then known by its configuration's digest."""
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            files = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
        assert all(path.endswith(sha256(files[path]).hexdigest()) for path in files if "/" in path)
        self.images[config_of(files)] = files


def config_of(files: Mapping[str, bytes]) -> str:
    config: str = json.loads(files["manifest.json"])[0]["Config"]
    return f"sha256:{config.rpartition('/')[2]}"


def image_files(*layers: bytes) -> tuple[str, dict[str, bytes]]:
    """Return an image's id and files, laid out as Docker 25 and later save it."""
    config = json.dumps({"layers": [sha256(layer).hexdigest() for layer in layers]}).encode()
    blobs = [config, *layers]
    paths = [f"blobs/sha256/{sha256(blob).hexdigest()}" for blob in blobs]
    manifest = json.dumps([{"Config": paths[0], "RepoTags": None, "Layers": paths[1:]}]).encode()
    files = {**dict(zip(paths, blobs, strict=True)), "manifest.json": manifest}
    return f"sha256:{sha256(blobs[0]).hexdigest()}", files


@contextmanager
def listening(socket: Path, handler: type[BaseHTTPRequestHandler]) -> Iterator[None]:
    with serving(socketserver.ThreadingUnixStreamServer(str(socket), handler)):
        yield


@contextmanager
def serving_docker(socket: Path) -> Iterator[Docker]:
    docker = Docker(socket)

    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "socket"

        def do_GET(self) -> None:
            docker.asked.append(self.path)
            # The name has slashes too.
            image = unquote(self.path).removeprefix("/images/").removesuffix("/json")
            if image not in docker.images:
                self._answer(404, json.dumps({"message": f"No such image: {image}"}).encode())
            else:
                files = docker.images[image]
                known = {
                    "Size": sum(map(len, files.values())),
                    "Id": config_of(files),
                    "RootFS": {"Layers": json.loads(files["manifest.json"])[0]["Layers"]},
                }
                self._answer(200, json.dumps(known).encode())

        def do_POST(self) -> None:
            docker.asked.append(self.path)
            if self.path.startswith("/images/create?"):
                docker.logins.append(self.headers["X-Registry-Auth"])
                status, lines = docker.pulls.pop(0)
                if status == 200 and not any({"error", "errorDetail"} & {*line} for line in lines):
                    name, tag = parse_qs(urlsplit(self.path).query).values()
                    docker.images[f"{name[0]}@{tag[0]}"] = image_files(b"layer")[1]
                self._answer(status, b"\r\n".join(json.dumps(line).encode() for line in lines))
                return
            if "/tag?" in self.path:
                docker.names.append(unquote(self.path.partition("/images/")[2]))
                self._answer(201, b"")
                return
            archive = b"".join(iter(self._chunk, b""))
            if not self.ended:
                return
            event: dict[str, object] = {"errorDetail": {"message": docker.error}}
            if not docker.error:
                docker.load(archive)
                detail = {"current": len(archive), "total": len(archive)}
                event = {"status": "Loading layer", "progressDetail": detail, "id": "aaa"}
            self._answer(200, json.dumps(event).encode() + b"\n")

        def _chunk(self) -> bytes:
            size = self.rfile.readline()
            self.ended = size == b"0\r\n"
            return self.rfile.read(int(size or b"0", 16) + 2)[:-2]

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

    with listening(socket, Handler):
        yield docker
