"""The hub's HTTP server: routes, Range, and answers that go wrong where a fault says so."""

import json
import os
import re
import socket
import struct
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.lab.hub import faults, protocol
from tests.lab.hub.protocol import Account, Refusal
from tests.lab.hub.repositories import Commit, File, Repository, load

CHUNK = 64 * 1024

# Matched before unquoting: a revision may hold %2F.
_FILE = re.compile(r"/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_MODEL = re.compile(
    r"/api/models/(?P<name>[^/]+/[^/]+)"
    r"(?:/(?P<what>revision|tree|commits|auth-check))?(?:/(?P<revision>[^/]+))?"
)
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class Hub(ThreadingHTTPServer):
    """A hub over a folder of repositories, which it reads anew for every request."""

    daemon_threads = True

    def __init__(self, root: Path, address: tuple[str, int]) -> None:
        self.root = root
        self.faults = faults.Faults()
        self.traffic = faults.Traffic()
        super().__init__(address, Handler)


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer, or refuse as the public hub would: status, X-Error-Code, JSON."""
        path = urlsplit(self.path).path
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        try:
            if path.startswith("/_lab/"):
                self._control(path)
            else:
                self._answer(path)
        except Refusal as refusal:
            headers = {"X-Error-Message": refusal.message, **refusal.headers}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            self._send_json({"error": refusal.message}, refusal.status, headers)
        except ConnectionError:
            self.close_connection = True

    do_HEAD = do_POST = do_DELETE = do_GET

    def _control(self, path: str) -> None:
        match self.command, path:
            case "GET", "/_lab/stats":
                self._send_json(self.server.traffic.listing())
            case "POST", "/_lab/faults":
                try:
                    self.server.faults.on.append(faults.Fault(**json.loads(self.body)))
                except (TypeError, ValueError) as error:
                    raise Refusal(400, str(error)) from error
                self._send_json({})
            case "DELETE", "/_lab/faults":
                self.server.faults.on.clear()
                self._send_json({})
            case _:
                raise Refusal(404, f"the lab's hub has no {self.command} {path}")

    def _answer(self, path: str) -> None:
        file = _FILE.fullmatch(path)
        model = _MODEL.fullmatch(path)
        subject = unquote(f"{file['name']}/{file['path']}" if file else path.removeprefix("/"))
        if fault := self.server.faults.claim(subject, faults.REFUSALS):
            raise protocol.staged_refusal(fault.name, subject, fault.seconds)
        account = protocol.account_of(self.headers.get("Authorization"))
        if path == "/api/whoami-v2":
            if account is None:
                raise Refusal(401, "Invalid username or password.")
            self._send_json({"type": "user", "name": account.name})
        elif file:
            self._send_file(file, subject, account)
        elif model:
            self._send_model(model, account)
        else:
            raise Refusal(404, "Sorry, we can't find the page you are looking for.")

    def _repository(self, name: str, account: Account | None) -> Repository:
        repository = load(self.server.root, unquote(name))
        if repository is None:
            raise protocol.missing_repository(account)
        return repository

    def _commit(self, repository: Repository, revision: str | None) -> Commit:
        wanted = unquote(revision or "main")
        commit = repository.find(wanted)
        if commit is None:
            raise Refusal(404, f"Invalid rev id: {wanted}", "RevisionNotFound")
        return commit

    def _send_model(self, match: re.Match[str], account: Account | None) -> None:
        repository = self._repository(match["name"], account)
        commit = self._commit(repository, match["revision"])
        match match["what"]:
            case None | "revision":
                blobs = "blobs=true" in urlsplit(self.path).query.lower()
                self._send_json(protocol.model_info(repository, commit, blobs=blobs))
            case "tree":
                self._send_json(protocol.tree(commit))
            case "commits":
                self._send_json(protocol.commits(repository, commit))
            case _:
                self._refuse_outsiders(repository, account)
                self._send_json({})

    def _refuse_outsiders(self, repository: Repository, account: Account | None) -> None:
        if repository.gated and not (account and account.member):
            raise protocol.gated_repository(repository.name, account)

    def _send_file(self, match: re.Match[str], subject: str, account: Account | None) -> None:
        repository = self._repository(match["name"], account)
        self._refuse_outsiders(repository, account)
        commit = self._commit(repository, match["revision"])
        file = commit.files.get(unquote(match["path"]))
        if file is None:
            headers = {"X-Repo-Commit": commit.id}
            raise Refusal(404, "Entry not found", "EntryNotFound", headers)
        if self.command == "GET":
            self.server.traffic.add(subject, requests=1)
            if self.server.faults.claim(subject, faults.RANGE_REFUSALS):
                raise protocol.staged_refusal("416", subject, 0)
        start, end = self._range(file.size)
        self.send_response(206 if self.headers.get("Range") else 200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(end - start))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{file.etag}"')
        self.send_header("X-Repo-Commit", commit.id)
        if file.sha256:
            self.send_header("X-Linked-Size", str(file.size))
            self.send_header("X-Linked-ETag", f'"{file.etag}"')
        if self.headers.get("Range"):
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{file.size}")
        self.end_headers()
        if self.command == "GET":
            self._send_content(file, start, end, subject)

    def _range(self, size: int) -> tuple[int, int]:
        """Return the first byte that is asked for and the one after the last."""
        header = self.headers.get("Range")
        if header is None:
            return 0, size
        match = _RANGE.fullmatch(header.replace(" ", ""))
        if match and match[1]:
            start, end = int(match[1]), int(match[2] or size - 1) + 1
        elif match and match[2]:
            start, end = max(0, size - int(match[2])), size
        else:
            start, end = size, size
        if start >= min(end, size):
            unsatisfied = {"Content-Range": f"bytes */{size}"}
            raise Refusal(416, "Requested Range Not Satisfiable", headers=unsatisfied)
        return start, min(end, size)

    def _send_content(self, file: File, start: int, end: int, subject: str) -> None:
        length = end - start
        broken = self.server.faults.claim(subject, faults.BREAKS)
        slow = self.server.faults.claim(subject, faults.RATES)
        kind = broken.name if broken else None
        point = length // 2 if broken is None or broken.after is None else broken.after
        stop = min(point, length) if kind in ("reset", "truncate") else length
        flipped = min(point, length - 1) if kind == "flip" else -1
        step = min(CHUNK, max(1, slow.rate // 10)) if slow else CHUNK
        begun = time.monotonic()
        sent = 0
        with file.source.open("rb") as stream:
            stream.seek(start)
            while sent < stop:
                chunk = bytearray(stream.read(min(step, stop - sent)))
                if 0 <= flipped - sent < len(chunk):
                    chunk[flipped - sent] ^= 1
                if slow:
                    due = begun + (sent + len(chunk)) / slow.rate
                    time.sleep(max(0.0, due - time.monotonic()))
                self.wfile.write(chunk)
                self.server.traffic.add(subject, sent=len(chunk))
                sent += len(chunk)
        if kind == "reset":
            self._reset()
        elif kind == "truncate":
            self.close_connection = True

    def _reset(self) -> None:
        """End the connection with a TCP RST, which the base class's shutdown would soften."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
        self.close_connection = True

    def _send_json(
        self, content: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        encoded = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(encoded)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(encoded)
