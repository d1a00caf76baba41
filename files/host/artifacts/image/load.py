"""Gives Docker an image piece by piece: its blobs, then the texts that tell of them."""

import http.client
import tarfile
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import IO
from urllib.parse import quote

from host.artifacts.image.archive import TEXTS, is_blob, refused, vouched
from host.artifacts.image.docker_socket import FULL, Docker, complaint, events, is_here
from host.common.log import log
from host.common.progress import JobError
from host.common.retry import RetryableError

# Bytes that are read at once. tarfile joins and copies them, in new memory each time if they are
# more: 8 MiB at a time took 3.7 s of a processor for a gigabyte, 256 KiB 1.4 s.
PART = 256 * 1024
# Bytes of a text, and blobs of an image: many times what the largest images have (a layer is a blob
# or two, and Docker allows 127 layers).
LARGEST_TEXT = 4 * 1024 * 1024
MOST_BLOBS = 1000


@dataclass(frozen=True)
class Member:
    """A file of an image, on its way; `origin` is where it comes from, for people."""

    origin: str
    path: str
    size: int
    content: IO[bytes]


class ImageLoad:
    """One image on its way to this machine's Docker.

    Args:
        reference: The name that it gets.
        wanted: The digests that vouch for it; by one of them Docker knows it.
        size: Bytes that are expected, about.
        most: Bytes that may come.
    """

    def __init__(self, reference: str, wanted: Collection[str], size: int, most: int) -> None:
        self._reference = reference
        self._wanted = wanted
        self._size = size
        self._most = most
        self._passed = 0
        self._is_whole = False
        self._layers: dict[str, tuple[int, int]] = {}

    def measure(self) -> tuple[str, int, int]:
        """Return phase, bytes done and bytes in total, about."""
        if layers := list(self._layers.values()):
            return "extracting", sum(done for done, _ in layers), sum(size for _, size in layers)
        return "copying", self._passed, max(self._passed, self._size)

    def give(self, members: Iterator[Member]) -> None:
        """Have Docker load the files of an archive, and give the image its name.

        Without a name, `docker image prune` would take it for waste.

        Raises:
            JobError: It is no image or the wrong one, or Docker does not take it.
            RetryableError: The archive or Docker ended early.
        """
        self._passed, self._is_whole = 0, False
        self._layers.clear()
        docker = Docker()
        try:
            docker.putrequest("POST", "/images/load?quiet=0")
            docker.putheader("Content-Type", "application/x-tar")
            docker.putheader("Transfer-Encoding", "chunked")
            try:
                docker.endheaders(self._archive(members), encode_chunked=True)
            except BrokenPipeError:
                log("Docker has stopped listening; its reason follows")
            for event in events(docker.getresponse(), self._reference, [FULL]):
                detail = event.get("progressDetail") or {}
                if "id" in event and detail.get("total"):
                    self._layers[event["id"]] = (detail.get("current", 0), detail["total"])
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RetryableError(f"Docker did not take the image ({error})") from error
        finally:
            docker.close()
        if not self._is_whole:
            raise RetryableError("Docker stopped listening in the middle of the image")
        self._name()

    def _archive(self, members: Iterator[Member]) -> Iterator[bytes]:
        """Yield the archive for Docker; it ends with the texts that this program has made."""
        texts: dict[str, bytes] = {}
        blobs: set[str] = set()
        for member in members:
            if is_blob(member.path) and len(blobs) < MOST_BLOBS:
                yield from self._blob(member)
                blobs.add(member.path)
            elif member.path in TEXTS and member.size <= LARGEST_TEXT:
                texts[member.path] = _read(member, member.size)
            else:
                raise refused(f"a file {member.path[:200]!a} of {member.size} bytes")
        made = vouched(texts, blobs, self._wanted)
        if not made:
            meaning = (
                "another image than the lock: refresh the lock (sparkwright lock --refresh), and"
                if "@" in self._reference
                else "built another meanwhile:"
            )
            raise JobError(f"The head does not send {self._reference}, it has {meaning} run again.")
        for path, text in made.items():
            yield _header(path, len(text)) + text + _padding(len(text))
        yield bytes(2 * tarfile.BLOCKSIZE)
        self._is_whole = True

    def _blob(self, member: Member) -> Iterator[bytes]:
        yield _header(member.path, member.size)
        digest, missing = sha256(), member.size
        while part := _read(member, min(PART, missing)):
            digest.update(part)
            missing -= len(part)
            self._passed += len(part)
            if self._passed > self._most:
                raise JobError(
                    f"{self._reference} has more than {self._most / 1e9:.2f} GB, which are free on "
                    "the disk: free some space, and run again."
                )
            yield part
        if missing:
            raise RetryableError(f"{member.origin} ended early, in {member.path}")
        if digest.hexdigest() != member.path[-64:]:
            raise JobError(
                f"{member.origin}: its content is not what its name says: delete it, and run "
                "again, to send it anew."
            )
        yield _padding(member.size)

    def _name(self) -> None:
        """Name the image; `repository@sha256:…` gets a tag for its digest."""
        known = next(filter(is_here, self._wanted), None)
        if known is None:
            names = ", ".join(self._wanted)
            raise JobError(
                f"Docker has loaded {self._reference}, and knows none of {names}: run again."
            )
        repository, _, tag = self._reference.rpartition(":")
        where = f"repo={quote(repository.removesuffix('@sha256'))}&tag={tag[:12]}"
        with closing(Docker()) as docker:
            answer = docker.ask("POST", f"/images/{quote(known)}/tag?{where}")
            if answer.status != http.client.CREATED:
                raise JobError(f"Docker cannot name {known}: {complaint(answer)}")


def _read(member: Member, size: int) -> bytes:
    try:
        return member.content.read(size)
    except (OSError, tarfile.TarError) as error:
        raise RetryableError(f"{member.origin} ended early ({error})") from error


def _header(path: str, size: int) -> bytes:
    info = tarfile.TarInfo(path)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
