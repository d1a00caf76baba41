"""copy-image ROOT: have Docker hold the image of ROOT/manifests/image-copy.json.

It comes from ROOT/bundle, or from another Spark of a group, which sends what its Docker saves, or
what comes to it. Each part is passed on at once to Docker, and to the next Spark of a group, so
that nothing is kept on the disk on the way; a copy that was cut begins again.
Exit status: 0 the image is here, 1 it is not; ROOT/jobs/image-copy.json says why.
"""

import json
import shutil
import socket
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

from host.artifacts.image.load import (
    BLOBS,
    LARGEST_TEXT,
    MANIFEST,
    PART,
    ImageLoad,
    Member,
    index,
    manifest,
    refused,
)
from host.common.command_line import words
from host.common.log import log
from host.common.progress import JobError, Progress
from host.common.retry import RetryableError, retry, run_job

# Seconds of silence while the head's Docker may put the layers together. That the head is there is
# known in a fraction of it: by keep-alive packets, the first after IDLE seconds.
PATIENCE, IDLE, PROBES = 900, 5, 3
# Seconds for the next Spark to ask, and to take a part: it waits for one itself.
NEXT, TAKES = 30, 120
REMEDY = "look at fabric-image.socket on that Spark, and at the cable; then run again"


class Header(tarfile.TarInfo):
    """A header of an archive that another has made: those that tarfile reads whole are bounded."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "Header":
        """Return the header of a block."""
        found = super().frombuf(buf, encoding, errors)
        if found.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) and found.size > LARGEST_TEXT:
            raise refused(f"a header of {found.size} bytes")
        return found


def sent(read: Callable[[int], bytes], origin: str) -> Iterator[Member]:
    """Yield the plain files that a Spark sends; raise RetryableError where that ends early."""
    is_whole = False
    try:
        stream = cast(IO[bytes], SimpleNamespace(read=read))
        with tarfile.open(fileobj=stream, mode="r|", bufsize=PART, tarinfo=Header) as archive:
            for found in archive:
                is_whole |= found.name == MANIFEST
                content = archive.extractfile(found) if found.isreg() else None
                if content:
                    yield Member(origin, found.name, found.size, content)
                elif not found.isdir():
                    raise refused(f"{found.name[:200]!a} is no plain file")
    except (OSError, tarfile.TarError) as error:
        raise RetryableError(f"{origin} ended early ({error})") from error
    if not is_whole:
        raise RetryableError(f"{origin} ended early, without {MANIFEST}")


def _passed(stream: IO[bytes], to: list[socket.socket], size: int) -> bytes:
    """Read of a stream, and pass that on to another Spark, for as long as it takes it."""
    part = stream.read(size)
    try:
        for each in to:
            each.sendall(part)
    except OSError as error:
        log(f"the next Spark takes no more: {error}")
        to.clear()
    return part


@contextmanager
def from_other(address: str, port: int, given: str = "") -> Iterator[Iterator[Member]]:
    """Have the files that another Spark sends, once for each; a further one may ask at `given`."""
    with ExitStack() as stack:
        try:
            asked = stack.enter_context(socket.create_server((given, port))) if given else None
            connection = socket.create_connection((address, port), IDLE * PROBES)
            stack.push(connection)
        except OSError as error:
            why = error.strerror or error
            raise RetryableError(f"no answer from {address}:{port} ({why})") from error
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
            connection.setsockopt(socket.IPPROTO_TCP, option, IDLE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        to = list[socket.socket]()
        if asked:
            asked.settimeout(NEXT)
            with asked, suppress(OSError):
                to.append(stack.enter_context(asked.accept()[0]))
                to[0].settimeout(TAKES)
        with connection.makefile("rb") as stream:
            yield sent(partial(_passed, stream, to), f"the image of {address}")


def in_bundle(folder: Path, image: Mapping[str, Any]) -> Iterator[Member]:
    """Yield the parts of an image that a bundle has brought, and the texts that tell of it.

    Args:
        image: `media_type` of its index or manifest; digests: `top` of that, `manifests`, `config`,
            and `layers` from the lowest.
    """
    config, *layers = (_path(digest) for digest in (image["config"], *image["layers"]))
    for path in dict.fromkeys([*map(_path, image["manifests"]), config, *layers]):
        place = folder / path
        try:
            with place.open("rb") as content:
                yield Member(str(place), path, place.stat().st_size, content)
        except OSError as error:
            raise JobError(
                f"{place}: {error.strerror}: delete it, and run again, to send it anew."
            ) from None
    size = (folder / _path(image["top"])).stat().st_size
    texts = manifest(config, layers) | index(image["top"], image["media_type"], size)
    for path, text in texts.items():
        yield Member("bundle", path, len(text), BytesIO(text))


def _path(digest: str) -> str:
    return BLOBS + digest.removeprefix("sha256:")


def main(root: Path) -> None:
    """Do the job; every end but success is raised."""
    orders: dict[str, Any] = json.loads((root / "manifests/image-copy.json").read_text("utf-8"))
    reference, image = orders["images"][0], orders.get("bundle")
    wanted = [image["config"], image["top"]] if image else orders["ids"]
    load = ImageLoad(reference, wanted, orders["size"], shutil.disk_usage(root).free)

    def attempt() -> None:
        if image:
            load.give(in_bundle(root / "bundle/images", image))
            return
        with from_other(*orders["source"]) as members:
            load.give(members)

    with Progress(root / "jobs/image-copy.json", load.measure) as progress:
        retry(attempt, lambda: 0, progress, reference, REMEDY)


def command() -> None:
    """Copies the image that the manifest names."""
    (root,) = words(__doc__, "ROOT")
    run_job(lambda: main(Path(root)))
