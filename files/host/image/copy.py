"""copy-image ROOT: have Docker hold the image of ROOT/manifests/image-copy.json, from the head.

Fetches what the head has exported into ROOT/imports, only what is missing of it, and gives it to
Docker; then ROOT/imports is empty again. Or gives it what a bundle has brought to ROOT/bundle.
Exit status: 0 the image is here, 1 it is not; ROOT/jobs/image-copy.json says why.
"""

import http.client
import json
import os
import shutil
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from host.common.command_line import words
from host.common.log import log
from host.common.progress import JobError, Progress
from host.common.retry import RetryableError, retry, run_job
from host.image.archive import BLOBS, Saved, bundled, is_built, listed, read
from host.image.docker_socket import FULL, Docker, complaint, failure, is_here, raise_known
from host.weights.checkpoint import LocalCheckpoint
from host.weights.hashing_file import File
from host.weights.peer_source import PeerSource

# A tar archive is made of such blocks, and ends with two empty ones.
BLOCK = tarfile.BLOCKSIZE


class Archive:
    """A folder as `docker load` wants it: a tar archive, made on its way to Docker.

    Args:
        folder: where the image is unpacked.
        paths: its files.
        texts: what is sent in the place of the files that tell of it.
    """

    def __init__(self, folder: Path, paths: Collection[str], texts: Mapping[str, bytes]) -> None:
        members: dict[str, Path | bytes] = {
            path: folder / path for path in paths if path.startswith(BLOBS)
        }
        self._members = sorted({**members, **texts}.items())
        self.size = 2 * BLOCK + sum(BLOCK + _padded(_size(it)) for _, it in self._members)
        self.sent = 0

    def send(self, docker: Docker) -> None:
        """Write all of it to a connection whose request has been begun."""
        for path, content in self._members:
            info = tarfile.TarInfo(path)
            info.size = size = _size(content)
            docker.sock.sendall(info.tobuf(tarfile.GNU_FORMAT))
            if isinstance(content, bytes):
                docker.sock.sendall(content)
            else:
                self._send_file(docker, content, size)
            docker.sock.sendall(bytes(_padded(size) - size))
        docker.sock.sendall(bytes(2 * BLOCK))

    def _send_file(self, docker: Docker, file: Path, size: int) -> None:
        with file.open("rb", buffering=0) as content:
            position = 0
            while position < size:
                sent = os.sendfile(docker.sock.fileno(), content.fileno(), position, 1 << 24)
                position += sent
                self.sent += sent


def _size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def name(image: str, reference: str) -> None:
    """Give an image the name of a reference; `repository@sha256:…` has a tag for the digest."""
    repository, _, tag = reference.rpartition(":")
    docker = Docker()
    try:
        where = f"repo={quote(repository.removesuffix('@sha256'))}&tag={tag[:12]}"
        answer = docker.ask("POST", f"/images/{quote(image)}/tag?{where}")
        if answer.status != http.client.CREATED:
            raise JobError(f"Docker cannot name {image}: {complaint(answer)}")
    finally:
        docker.close()


class Copy:
    """One image on its way from the head to this Spark's Docker."""

    def __init__(self, manifest: dict[str, Any], folder: Path) -> None:
        self._references: list[str] = manifest["images"]
        # What a built image is called on the head, which was asked by SSH: it is in no lock.
        self._ids: list[str] = manifest.get("ids", self._references)
        self._source: str = manifest.get("source", "")
        self._folder = folder
        self._checkpoint: LocalCheckpoint | None = None
        self._archive: Archive | None = None
        self._layers: dict[str, tuple[int, int]] = {}

    def measure(self) -> tuple[str, int, int]:
        """Return phase, bytes done and bytes in total."""
        if layers := list(self._layers.values()):
            return "extracting", sum(done for done, _ in layers), sum(size for _, size in layers)
        if self._archive:
            return "loading", self._archive.sent, self._archive.size
        return self._checkpoint.measure() if self._checkpoint else ("copying", 0, 0)

    def fetch(self, progress: Progress) -> None:
        """Have in the folder what the head has exported, and nothing else."""
        share = PeerSource(self._source, progress)
        self._checkpoint = LocalCheckpoint(self._folder, listed(share.listing()))
        self._checkpoint.verify()
        self._checkpoint.fetch(share)

    def load(self, progress: Progress) -> None:
        """Give the folder to Docker, which checks every layer by the image's configuration.

        A copied image has no name: it gets one, or `docker image prune` would take it for waste.

        Raises:
            JobError: Docker does not take it, or it is another image than the head should have.
        """
        saved = self.saved()
        reference = self._references[0]
        if not saved.ids:
            meaning = (
                "it has built another meanwhile: run again"
                if is_built(reference)
                else "it has another image than the lock: "
                "refresh the lock (sparkwright lock --refresh), and run again"
            )
            raise JobError(f"The head does not lend {reference}, {meaning}.")
        self._archive = Archive(self._folder, self.paths(), saved.texts)
        retry(self._load, lambda: 0, progress, reference)
        known = next(filter(is_here, saved.ids), None)
        if known is None:
            raise JobError(
                f"Docker has loaded the copy of {reference}, and knows none of "
                f"{', '.join(saved.ids)}: run again."
            )
        name(known, reference)

    def saved(self) -> Saved:
        """Return the manifest by which Docker loads the image."""
        return read(self._folder, self.paths(), self._ids)

    def paths(self) -> Collection[str]:
        """Return the paths of what the head has exported."""
        assert self._checkpoint
        return self._checkpoint.files

    def _load(self) -> None:
        assert self._archive
        archive = self._archive
        archive.sent = 0
        self._layers.clear()
        docker = Docker()
        try:
            docker.putrequest("POST", "/images/load?quiet=0")
            docker.putheader("Content-Type", "application/x-tar")
            docker.putheader("Content-Length", str(archive.size))
            docker.endheaders()
            try:
                archive.send(docker)
            except BrokenPipeError:
                log("Docker has stopped listening; its reason follows")
            answer = docker.getresponse()
            if answer.status != http.client.OK:
                raise_known(self._references[0], complaint(answer), [FULL])
            for line in answer:
                self._note(json.loads(line))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RetryableError(f"Docker did not take the image ({error})") from error
        finally:
            docker.close()

    def _note(self, event: dict[str, Any]) -> None:
        if said := failure(event):
            raise_known(self._references[0], said, [FULL])
        detail = event.get("progressDetail") or {}
        if "id" in event and detail.get("total"):
            self._layers[event["id"]] = (detail.get("current", 0), detail["total"])


class BundledCopy(Copy):
    """One image on its way from a bundle on this Spark to its Docker."""

    def __init__(self, manifest: dict[str, Any], folder: Path) -> None:
        super().__init__(manifest, folder)
        self._image: dict[str, Any] = manifest["bundle"]
        self._hashed = 0

    def measure(self) -> tuple[str, int, int]:
        """Return phase, bytes done and bytes in total."""
        if self._archive:
            return super().measure()
        return "verifying", self._hashed, sum(self._image["blobs"].values())

    def fetch(self, progress: Progress) -> None:
        """Verify that all parts of the image are there.

        Raises:
            JobError: one is missing, or its content is not what its name says.
        """
        for path, size in self._image["blobs"].items():
            file, place = File(path, size, path.removeprefix(BLOBS)), self._folder / path
            try:
                if file.digest_of(place, self._count) == file.digest:
                    continue
            except OSError as error:
                raise JobError(f"{place}: {error.strerror}: run again, to send it.") from None
            raise JobError(
                f"{place}: its content is not what its name says: delete it, and run again, to "
                "send it anew."
            )

    def _count(self, seen: int) -> None:
        self._hashed += seen

    def saved(self) -> Saved:
        """Return the manifest by which Docker loads the image."""
        return bundled(self._image)

    def paths(self) -> Collection[str]:
        """Return the paths of its parts."""
        return list(self._image["blobs"])


def main(root: Path) -> None:
    """Do the job; every end but success is raised."""
    manifest = json.loads((root / "manifests/image-copy.json").read_text("utf-8"))
    folder = root / "imports"
    is_bundled = "bundle" in manifest
    copy = BundledCopy(manifest, root / "bundle/images") if is_bundled else Copy(manifest, folder)
    with Progress(root / "jobs/image-copy.json", copy.measure) as progress:
        copy.fetch(progress)
        copy.load(progress)
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def command() -> None:
    """Copies the image that the manifest names."""
    (root,) = words(__doc__, "ROOT")
    run_job(lambda: main(Path(root)))
