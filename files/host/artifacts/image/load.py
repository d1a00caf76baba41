"""Gives Docker an image piece by piece: its blobs, then the texts that tell of them."""

import http.client
import json
import re
import tarfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import IO, Any
from urllib.parse import quote

from host.artifacts.image.docker_socket import FULL, Docker, complaint, events, is_here
from host.common.log import log
from host.common.progress import JobError
from host.common.retry import RetryableError

BLOBS = "blobs/sha256/"
MANIFEST, INDEX, LAYOUT = "manifest.json", "index.json", "oci-layout"
# `repositories` holds names, as Docker has them for clients older than 2015.
TEXTS = (MANIFEST, INDEX, LAYOUT, "repositories")
_BLOB = re.compile(BLOBS + "([0-9a-f]{64})")
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
        self._layers: dict[str, tuple[int, int]] = {}

    def measure(self) -> tuple[str, int, int]:
        """Return phase, bytes done and bytes in total, about."""
        if layers := list(self._layers.values()):
            return "extracting", sum(done for done, _ in layers), sum(size for _, size in layers)
        return "copying", self._passed, max(self._passed, self._size)

    def give(self, members: Iterator[Member]) -> None:
        """Have Docker load the files of an archive, and give the image its name.

        Without a name, `docker image prune` would take it for waste.
        """
        self._passed, is_whole = 0, False
        self._layers.clear()
        docker = Docker()
        try:
            docker.putrequest("POST", "/images/load?quiet=0")
            docker.putheader("Content-Type", "application/x-tar")
            docker.putheader("Transfer-Encoding", "chunked")
            try:
                docker.endheaders(self._archive(members), encode_chunked=True)
                is_whole = True
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
        if not is_whole:
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


def is_blob(path: str) -> bool:
    """Tell whether a path is that of a blob: its name is the hash of its content."""
    return bool(_BLOB.fullmatch(path))


def vouched(
    texts: Mapping[str, bytes], blobs: Collection[str], wanted: Collection[str]
) -> dict[str, bytes]:
    """Return the texts by which Docker gets a wanted image, by path; none if it is another.

    A text is made only where a wanted digest vouches for all that Docker reads by it: that of the
    image's configuration, or of its manifest or index. It gives no name, as Docker would take that
    from its owner's images.

    Args:
        texts: The archive's own texts.
        blobs: Paths of its blobs, each of the content that its name says.
    """
    made: dict[str, bytes] = {}
    try:
        (image,) = json.loads(texts[MANIFEST])
        config, layers = image["Config"], image["Layers"]
        for path in (config, *layers):
            if not is_blob(path) or path not in blobs:
                raise ValueError(f"no blob {str(path)[:200]!a}")
        if f"sha256:{config.removeprefix(BLOBS)}" in wanted:
            made |= manifest(config, layers)
        if INDEX in texts:
            (found,) = json.loads(texts[INDEX])["manifests"]
            digest = found["digest"]
            if BLOBS + digest.removeprefix("sha256:") not in blobs:
                raise ValueError(f"no manifest {digest[:200]!a}")
            if digest in wanted:
                made |= index(digest, found["mediaType"], found["size"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise refused(error) from None
    return made


def refused(error: Exception | str) -> JobError:
    """Return the error of a job whose archive is not one image."""
    reason = str(error) if type(error) in (str, ValueError) else repr(error)
    return JobError(
        f"What the other Spark sends is not one image as Docker saves it ({reason[:300]}): Docker "
        "has loaded nothing of it. Look at that Spark (`docker version` there: 25 or later), then "
        "run again."
    )


def manifest(config: str, layers: Collection[str]) -> dict[str, bytes]:
    """Return the text by which Docker's older store gets an image, from its paths."""
    slim = {"Config": config, "RepoTags": None, "Layers": [*layers]}
    return {MANIFEST: json.dumps([slim]).encode()}


def index(digest: str, media_type: Any, size: Any) -> dict[str, bytes]:
    """Return the texts by which Docker's newer store gets an image, from its manifest or index."""
    entry = {"mediaType": media_type, "digest": digest, "size": size}
    return {
        INDEX: json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
        LAYOUT: b'{"imageLayoutVersion": "1.0.0"}',
    }
