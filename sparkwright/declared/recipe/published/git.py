"""Fetches a commit of somebody else's repository: an archive, of which plain files are written.

Nothing of the repository runs or is followed: no hook, filter, submodule or symbolic link.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import tarfile
import tempfile
from functools import partial
from pathlib import Path
from typing import IO

from sparkwright.common.errors import PlanError

PROTOCOLS: tuple[str, ...] = ("https", "ssh")
_URL = re.compile(r"((?P<protocol>[a-z]+)://|[A-Za-z0-9][\w.-]*@)[A-Za-z0-9/][^\s\x00-\x1f]*")
_LOGIN = re.compile(r"https://([^/@]*:[^/@]*|[^/@]{20,})@")
# Seconds; the largest of the sources, without history, is 60 MB.
_TIMEOUT = 300
# Bytes: git's address space, which a pack of some KB can fill; a file of git's; one of ours.
_MEMORY, _LARGEST, _MOST_BYTES, _MOST_FILES = 2**29, 2**27, 4 * 2**20, 20_000
_PATH = re.compile(r"((?!\.git|\.\.?(/|$))[^/\\]{1,200}(/|$)){1,16}(?<!/)", re.IGNORECASE)
# Large files stay out of memory, which threads share.
_SETTINGS = "core.hooksPath=/dev/null fetch.unpackLimit=1 core.bigFileThreshold=4m pack.threads=1"
_OWN = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS": "true", "LC_ALL": "C"}
_OWN |= {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes", "GIT_NO_LAZY_FETCH": "1"}
_REASONS = {
    "not our ref|unadvertised object|find remote ref": "found no such commit in the repository; "
    "expected a branch, a tag, or all 40 digits of a commit",
    "resolve host|unable to access": "cannot be reached; expected a network that leads there",
    "could not read Username|Authentication failed|Permission denied|not found": "found no such "
    "repository, or none that you may read; expected ssh or git's credential helper to log in",
    "[Oo]ut of memory|mmap failed|too large|invalid index-pack": "found more than it may take",
}


def is_url(text: str) -> bool:
    """Tell whether a text is an address of a repository that git may be asked for."""
    match = _URL.fullmatch(text)
    return match is not None and (match["protocol"] or "ssh") in PROTOCOLS


def fetch(url: str, ref: str, folder: Path) -> str:
    """Write the files of a commit, tag or branch into a folder; return the commit."""
    if _LOGIN.match(url):
        raise PlanError("found a login in the address; expected git's credential helper, or ssh")
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryFile() as archive:
        _git("init", "--quiet", "--bare", "--template=", work)
        _git("-C", work, "fetch", "--depth=1", "--no-tags", "--", url, ref, protocols=PROTOCOLS)
        Path(work, "info").mkdir(exist_ok=True)
        Path(work, "info/attributes").write_bytes(b"* -filter -ident -export-ignore -export-subst")
        _git("-C", work, "archive", "--format=tar", "FETCH_HEAD", said=archive)
        _unpack(archive, folder, url)
        return commit_of(Path(work), "FETCH_HEAD^{commit}")


def commit_of(folder: Path, ref: str = "HEAD") -> str:
    """Return the commit of a repository; what the repository configures never runs."""
    return _git("-C", str(folder), "rev-parse", ref).strip()


def _unpack(archive: IO[bytes], folder: Path, url: str) -> None:
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        for count, entry in enumerate(tar):
            if count >= _MOST_FILES:
                raise PlanError(f"{url}: found more than {_MOST_FILES} files; expected recipes")
            fits = entry.isfile() and entry.size <= _MOST_BYTES and entry.name.isprintable()
            if fits and _PATH.fullmatch(entry.name) and (content := tar.extractfile(entry)):
                place = folder / entry.name
                place.parent.mkdir(parents=True, exist_ok=True)
                # Names that differ in their case alone are one on some machines: the first stays.
                with contextlib.suppress(FileExistsError), place.open("xb") as file:
                    file.write(content.read())
                    place.chmod(0o755 if entry.mode & 0o100 else 0o644)


def _git(*words: str, said: IO[bytes] | None = None, protocols: tuple[str, ...] = ()) -> str:
    """Run git without prompts, in bounds, and with no way out but some protocols."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= _OWN | {"GIT_ALLOW_PROTOCOL": ":".join(protocols)}
    command = ["git", *(word for each in _SETTINGS.split() for word in ("-c", each)), *words]
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as out:
        # With what it starts, it is ended as one, and has no terminal.
        own = partial(subprocess.Popen[bytes], preexec_fn=_bounded, start_new_session=True)
        try:
            process = own(command, stdin=-3, stdout=said or out, stderr=log, env=env, cwd="/")
        except FileNotFoundError:
            raise PlanError("git: found no such program; expected it: apt install git") from None
        try:
            status = process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise PlanError(f"git: not done after {_TIMEOUT} s; expected an answer") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        told = log.read(20_000).decode(errors="replace")
        if status:
            reasons = (each for find, each in _REASONS.items() if re.search(find, told))
            said_by_git = " ".join(told.split())[-300:] or status
            raise PlanError(f"git: {next(reasons, 'failed')} ({said_by_git})")
        out.seek(0)
        return out.read(_MOST_BYTES).decode(errors="replace")


def _bounded() -> None:
    for kind, most in (("AS", _MEMORY), ("FSIZE", _LARGEST), ("CORE", 0), ("CPU", 300)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (most, most))
