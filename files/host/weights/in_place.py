"""mount-weights ROOT RELEASE: have the files that a release uses in place, from other disks.

A checkpoint's folder may have files that are on NFS or on another disk, adopted where they are (see
host/weights/adopt.py): each is mounted there, read-only. Mounts end with a boot, so each start of
an engine asks for them again. Exit status: 0 all are there, 1 one of them is away or was changed.
"""

import errno
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import log

# Seconds for which a start waits for a disk: one in the network may come back after the Spark does,
# and one that hangs is no reason to hang with it.
PATIENCE = 60
RETRY = 2
# How mountinfo writes a space and its like.
_ESCAPED = re.compile(r"\\([0-7]{3})")


class AwayError(Exception):
    """A file that cannot be used in place: a sentence, with the remedy."""


@dataclass(frozen=True)
class Original:
    """A file outside of the root folder, as it was when its content was hashed.

    Attributes:
        base: the folder that the group data names.
        parts: the path below it.
        size: bytes.
        mtime_ns, inode: which show that it is unchanged.
    """

    base: str
    parts: tuple[str, ...]
    size: int
    mtime_ns: int
    inode: int

    @property
    def path(self) -> str:
        """Where it is."""
        return "/".join((self.base, *self.parts))

    def is_like(self, found: os.stat_result) -> bool:
        """Tell whether a file is this one, unchanged."""
        seen = (found.st_size, found.st_mtime_ns, found.st_ino)
        return seen == (self.size, self.mtime_ns, self.inode)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open it by descriptors, along no link below the base.

        Raises:
            OSError: it is not there, or a link is in the way.
        """
        number = open_below(self.base, self.parts)[0]
        try:
            yield number
        finally:
            os.close(number)


def open_below(base: str, parts: tuple[str, ...]) -> tuple[int, list[os.stat_result]]:
    """Open a file below a folder, along no link; return it, and what the folders on the way are.

    Raises:
        OSError: there is no such file, or a link is in the way.
    """
    here = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    seen = [os.fstat(here)]
    for depth, part in enumerate(parts):
        kind = os.O_DIRECTORY if depth < len(parts) - 1 else os.O_NONBLOCK
        try:
            found = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind, dir_fd=here)
        finally:
            os.close(here)
        here = found
        seen.append(os.fstat(here))
    if not stat.S_ISREG(seen[-1].st_mode):
        os.close(here)
        raise OSError(errno.EINVAL, "no file")
    return here, seen[:-1]


class InPlace:
    """The files of one checkpoint folder that are used where they are.

    Their list is root's alone, beside the orders: who fetches can write in the folder itself.
    """

    def __init__(self, root: Path, folder: str) -> None:
        self.folder = root / folder
        self._list = root / "manifests" / f"{folder}.in-place.json"
        try:
            found = json.loads(self._list.read_text("utf-8"))
        except FileNotFoundError:
            found = {}
        self.files = {
            path: Original(**{**each, "parts": tuple(each["parts"])})
            for path, each in found.items()
        }

    def save(self) -> None:
        """Write the list, or remove one that is empty."""
        if not self.files:
            self._list.unlink(missing_ok=True)
            return
        text = json.dumps({path: asdict(each) for path, each in self.files.items()}, sort_keys=True)
        replace(self._list, text + "\n", durable=True)

    def changed(self) -> list[str]:
        """Return which of them are there, and not as they were."""
        found = []
        for path, original in self.files.items():
            with suppress(OSError), original.opened() as file:
                if not original.is_like(os.fstat(file)):
                    found.append(path)
        return found

    def mount(self) -> None:
        """Have each file mounted that is not on this disk by now.

        Raises:
            AwayError: one is away or was changed.
        """
        for path, original in self.files.items():
            self._mount(self.folder / path, original)

    def _mount(self, place: Path, original: Original) -> None:
        remedy = (
            f"have {original.base} mounted as it was, or take it out of model_folders and run again"
        )
        is_mount = str(place) in mount_points()
        if not is_mount and _is_whole(place, original.size):
            return
        try:
            with original.opened() as file:
                if not original.is_like(os.fstat(file)):
                    raise AwayError(f"{original.path} was changed since it was verified: {remedy}.")
                if is_mount:
                    if os.path.samestat(os.fstat(file), place.stat()):
                        return
                    unmount(place)
                place.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                os.close(os.open(place, flags, 0o644))
                bind = ("mount", "--no-canonicalize", "--bind", f"/proc/self/fd/{file}", str(place))
                _run(*bind, keep=file)
                _run("mount", "-o", "remount,bind,ro,nosuid,nodev,noexec", str(place))
        except OSError as error:
            raise AwayError(f"{original.path} is away ({error.strerror}): {remedy}.") from error

    def drop(self, paths: Collection[str]) -> None:
        """Use these no longer: fetching will bring them."""
        mounted = mount_points()
        for path in paths:
            place = self.folder / path
            if str(place) in mounted:
                unmount(place)
            with suppress(FileNotFoundError):
                if place.stat().st_size == 0:
                    place.unlink()
            self.files.pop(path, None)
        self.save()


def mount_points() -> set[str]:
    """Return where something is mounted."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    return {_ESCAPED.sub(lambda code: chr(int(code[1], 8)), line.split(" ")[4]) for line in lines}


def unmount(place: Path) -> None:
    """End a mount, whoever has its file open."""
    _run("umount", "--lazy", str(place))


def _is_whole(place: Path, size: int) -> bool:
    """Tell whether a file of its own is there: what a mount is to cover is empty."""
    try:
        return place.stat().st_size == size
    except FileNotFoundError:
        return False


def _run(*command: str, keep: int | None = None) -> None:
    done = subprocess.run(
        command, pass_fds=[keep] if keep is not None else [], capture_output=True, text=True
    )
    if done.returncode:
        raise OSError(errno.EIO, " ".join(done.stderr.split()) or f"{command[0]} failed")


def wait_for(folders: Collection[InPlace], patience: float) -> str | None:
    """Mount what these folders use in place; return why that cannot be, if it cannot.

    Args:
        patience: seconds for which what is away is waited for.
    """
    problem: list[str | None] = ["a disk that model_folders names does not answer"]
    ends = time.monotonic() + patience

    def try_all() -> None:
        while True:
            try:
                for each in folders:
                    each.mount()
                problem[0] = None
                return
            except AwayError as error:
                problem[0] = str(error)
            if time.monotonic() + RETRY > ends:
                return
            time.sleep(RETRY)

    # A disk in the network may keep a thread for ever; a process ends without it.
    worker = threading.Thread(target=try_all, daemon=True)
    worker.start()
    worker.join(patience + 5 * RETRY)
    return problem[0]


def checkpoint_folders(root: Path, release: str) -> list[str]:
    """Return the checkpoint folders of a release; none of one whose files are not there."""
    try:
        told = json.loads((root / "releases" / release / "release.json").read_text("utf-8"))
        names = [each["folder"] for each in told["checkpoints"].values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return [name for name in names if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]*", name)]


def command() -> None:
    """Mounts what a release uses in place, before its engine starts."""
    root, release = words(__doc__, "ROOT", "RELEASE")
    folders = [InPlace(Path(root), name) for name in checkpoint_folders(Path(root), release)]
    problem = wait_for([each for each in folders if each.files], PATIENCE)
    if problem:
        log(f"weights in place: {problem}")
    sys.stderr.flush()
    os._exit(1 if problem else 0)
