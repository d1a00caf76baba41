"""Sends files of a bundle to a Spark, by the connection that the run has to it."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from tarfile import BLOCKSIZE, TarInfo
from typing import IO, ClassVar

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.operations import run_now
from sparkwright.common.part import Part
from sparkwright.common.progress import JobProgress, ProgressLines, size_text
from sparkwright.common.terminal import plain_lines
from sparkwright.plan.release.bundle import INDEX, Bundle, BundledFile
from sparkwright.run.beside import LOSSES, run_beside
from sparkwright.run.state import read_now
from sparkwright.run.target import target_of

# Bytes that are read and sent at once: with 1 MiB it was a fifth slower.
_CHUNK = 256 * 1024
# Seconds in which a Spark takes a chunk, or says how it has ended: its disk may be slow.
_PATIENCE = 120
# Bytes that stay free on a Spark's disk.
_RESERVE = 1024**3
_AGAIN = "What has come whole of the bundle is kept there: run again, which sends the rest."
_LOST = f"The Spark stopped responding. {_AGAIN}"
_TAKE = 'umask 022; mkdir -p "$0" && cd "$0" && exec tar --extract --no-same-owner --touch'


class Carried(Part):
    """The hashes of a bundle's files on a Spark by their paths, and the free bytes of its disk."""

    part: ClassVar = "artifacts.bundle"
    # Hashing takes minutes.
    patience: ClassVar[float] = 3600

    free: int
    architecture: str
    files: dict[str, str]


def architecture(host: Host) -> str:
    """Return a host's architecture, as dpkg names it."""
    return _carried(host, {}).architecture


def send(
    bundle: Bundle, paths: Sequence[str], needed: Callable[[Host], Collection[str]] | None = None
) -> FunctionCommand:
    """Return the command that has files of a bundle in the Spark's folder `bundle`, as `bring`."""

    def run(state: State, host: Host) -> bool:
        try:
            bring(host, bundle, paths, needed(host) if needed else paths)
        except PyinfraError as error:
            host.log_styled(plain_lines(str(error)), fg="red", log_func=logger.error)
            return False
        return True

    return FunctionCommand(run, (), {})


def bring(
    host: Host, bundle: Bundle, paths: Sequence[str], needed: Collection[str] | None = None
) -> None:
    """Send files of a bundle that the Spark lacks, or has with another content.

    Of those that it lacks, only the needed ones are sent; without a choice, all are.
    """
    root = target_of(host).root
    files = {path: bundle.index.files[path] for path in paths}
    carried = _carried(host, files)
    asked = {*(paths if needed is None else needed), *carried.files}
    lacking = {
        path: file
        for path, file in files.items()
        if path in asked and carried.files.get(path) != file.sha256
    }
    size = sum(file.size for file in lacking.values())
    if not lacking:
        return
    if size + _RESERVE > carried.free:
        raise PyinfraError(
            f"{root}/bundle: found {size_text(carried.free)} free; expected "
            f"{size_text(size + _RESERVE)}, for what comes from {bundle.folder}: free some space "
            "(sparkwright clean), and run again."
        )
    try:
        _stream(host, root, bundle, lacking, size)
    except LOSSES:
        raise PyinfraError(_LOST) from None
    found = _carried(host, lacking).files
    if wrong := [path for path, file in lacking.items() if found.get(path) != file.sha256]:
        places = (QuoteString(f"{root}/bundle/{path}") for path in wrong)
        run_now(host, StringCommand("rm -f --", *places))
        raise PyinfraError(
            f"{bundle.folder / wrong[0]}: found another content than {INDEX} says; expected the "
            f"file as it was fetched. Delete it, and {bundle.remedy}"
        )
    host.log(f"{len(lacking)} file(s) of the bundle sent, {size_text(size)}")


def _carried(host: Host, files: Mapping[str, BundledFile]) -> Carried:
    sizes = {path: file.size for path, file in files.items()}
    return read_now(host, Carried.ask(root=target_of(host).root, sizes=sizes))


def _stream(host: Host, root: str, bundle: Bundle, paths: Collection[str], total: int) -> None:
    """Send files as one tar archive, which the Spark unpacks as it comes."""
    progress, done = ProgressLines(lambda line: host.log(f"bundle: {line}")), 0
    words = StringCommand("sh -c", QuoteString(_TAKE), QuoteString(f"{root}/bundle"))
    with closing(run_beside(host, words, _PATIENCE)) as tar:
        # A failed write means that the command or the connection has ended: `end` tells which.
        with suppress(*LOSSES):
            for path in paths:
                for count in _add(tar.input, bundle, path):
                    done += count
                    progress.show(JobProgress("copying", done, total, ""))
            tar.input.write(bytes(2 * BLOCKSIZE))
        status, said = tar.end()
    if status < 0:
        raise PyinfraError(_LOST)
    if status:
        reason = said.decode(errors="replace").strip() or f"its command ended with status {status}"
        refused = f"The Spark did not take all that {bundle.folder} has for it"
        raise PyinfraError(f"{refused}: {reason[:500]}. {_AGAIN}")


def _add(archive: IO[bytes], bundle: Bundle, path: str) -> Iterator[int]:
    """Write a file of a bundle into an archive; yield the bytes that are written."""
    try:
        file = (bundle.folder / path).open("rb", buffering=0)
    except OSError as error:
        found = f"found {error.strerror}; expected a file"
        raise PyinfraError(f"{bundle.folder / path}: {found}: {bundle.remedy}") from None
    with file:
        entry = TarInfo(path)
        entry.size = os.fstat(file.fileno()).st_size
        archive.write(entry.tobuf())
        while chunk := file.read(_CHUNK):
            archive.write(chunk)
            yield len(chunk)
    archive.write(bytes(-entry.size % BLOCKSIZE))
