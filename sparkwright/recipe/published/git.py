"""Fetches the files of a commit of somebody else's git repository into a cache.

No work tree is made: objects are read, and written as plain files. So nothing of the repository is
run or followed: no hook, filter, submodule or symbolic link.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath

from sparkwright.common.errors import PlanError

COMMIT = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}")
_URL = re.compile(r"(https|ssh|file)://[^\s\x00-\x1f]+|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^\s]+")
_PASSWORD = re.compile(r"https://[^/@]*:[^/@]*@|https://[^/@]{20,}@")

# Seconds: the largest of the sources, without history, is 60 MB.
_TIMEOUT = 300
# Bytes. What git may write into one file; what a file, and all of them, may have here.
_MOST_PACK, _MOST_BYTES, _MOST_IN_ALL = 2**29, 4 * 2**20, 2**28
_MOST_FILES = 20_000
_MODES = {"100644": 0o644, "100755": 0o755}
_DEEPEST, _LONGEST = 16, 200


@dataclass(frozen=True)
class Fetched:
    """The files of a commit.

    Attributes:
        root: Their folder.
        url: Of the repository.
        commit: 40 hexadecimal digits.
        day: Of the commit.
    """

    root: Path
    url: str
    commit: str
    day: date


def is_url(text: str) -> bool:
    """Tell whether a text is an address of a repository that git may be asked for."""
    return _URL.fullmatch(text) is not None


def cache_folder() -> Path:
    """Return where fetched files are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "sparkwright", "sources")


def resolve(url: str, ref: str = "HEAD") -> str:
    """Ask a repository which commit a branch or tag stands for now.

    Args:
        url: Its address, or the path of a folder.
        ref: The branch, tag or full commit.

    Raises:
        PlanError: There is none, or it cannot be asked.
    """
    if COMMIT.fullmatch(ref):
        return ref
    if not _REF.fullmatch(ref):
        raise PlanError(f"{url}: found {ref!r}; expected a commit, a tag or a branch")
    wanted = ["HEAD"] if ref == "HEAD" else [f"refs/tags/{ref}", f"refs/heads/{ref}"]
    said = _git("ls-remote", "--", _address(url), *wanted, *(f"{each}^{{}}" for each in wanted))
    found: dict[str, str] = {}
    for line in said.splitlines():
        commit, _, name = line.partition("\t")
        found[name] = commit
    for name in (f"{wanted[0]}^{{}}", *wanted):
        if COMMIT.fullmatch(commit := found.get(name, "")):
            return commit
    if re.fullmatch("[0-9a-f]{4,39}", ref):
        raise PlanError(f"{url}: found the short commit {ref}; expected all of its 40 digits")
    raise PlanError(f"{url}: found no branch or tag {ref}; expected one, or a full commit")


def about(folder: Path, commit: str) -> tuple[str | None, date, dict[str, str]]:
    """Return what a checkout's own repository says of a commit, without running what it configures.

    Args:
        folder: Of the checkout.
        commit: One that it has.

    Returns:
        The address that it was cloned from, if it is a public one; the day of the commit; and what
        git calls the content of its files (`content_hash`), by their paths.

    Raises:
        PlanError: git cannot read it.
    """
    where = ("-C", str(folder))
    day = _day(_git(*where, "cat-file", "commit", commit))
    tree = _git(*where, "ls-tree", "-r", "-z", "--full-tree", commit)
    hashes: dict[str, str] = {}
    for entry in tree.split("\0"):
        fields, tab, path = entry.partition("\t")
        if tab and " blob " in fields:
            hashes[path] = fields.rpartition(" ")[2]
    try:
        url = _git(*where, "config", "--local", "--get", "remote.origin.url").strip()
    except PlanError:
        url = ""
    is_public = is_url(url) and not url.startswith("file:") and not _PASSWORD.match(url)
    return (url.removesuffix(".git") if is_public else None), day, hashes


def content_hash(path: Path) -> str:
    """Return what git calls the content of a file: a hash of SHA-1."""
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES)
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest()


def fetch(url: str, commit: str) -> Fetched:
    """Return the files of a commit, fetched unless they were before.

    Args:
        url: Of the repository, or the path of a folder.
        commit: 40 hexadecimal digits.

    Raises:
        PlanError: It cannot be had.
    """
    if not COMMIT.fullmatch(commit):
        raise PlanError(f"{url}: found the commit {commit!r}; expected 40 hexadecimal digits")
    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    folder = cache_folder() / name / commit
    if not (folder / "about.json").is_file():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                _fill(Path(work), url, commit)
                # Another process may have been faster.
                with contextlib.suppress(OSError):
                    Path(work, "done").rename(folder)
        except OSError as error:
            raise PlanError(f"{folder}: cannot be written ({error.strerror})") from None
    try:
        about = json.loads((folder / "about.json").read_text("utf-8"))
        return Fetched(folder / "files", url, commit, date.fromisoformat(about["day"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise PlanError(f"{folder}: found no files of a commit; expected them: remove it") from None


def _fill(work: Path, url: str, commit: str) -> None:
    repository = str(work / "repository")
    _git("init", "--quiet", "--bare", "--template=", repository)
    words = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
    _git("-C", repository, *words, "--", _address(url), commit)
    day = _day(_git("-C", repository, "cat-file", "commit", commit))
    files = dict(_listed(repository, commit, url))
    done = work / "done"
    (done / "files").mkdir(parents=True)
    _write(repository, files, done / "files")
    (done / "about.json").write_text(
        json.dumps({"url": url, "commit": commit, "day": str(day)}), "utf-8"
    )


def _address(url: str) -> str:
    """Return what git is asked for.

    Raises:
        PlanError: It is none that may be asked.
    """
    if _PASSWORD.match(url):
        raise PlanError(
            "found an address with a password or token in it; expected one without: git's own "
            "credential helper, or ssh, has it"
        )
    if is_url(url):
        return url
    path = Path(url)
    if path.is_absolute() and path.is_dir():
        return str(path)
    raise PlanError(f"found {url!r}; expected an address (https://, ssh://, file://), or a folder")


def _day(commit: str) -> date:
    match = re.search(r"^committer .*> ([0-9]{1,12}) [+-][0-9]{4}$", commit, re.MULTILINE)
    try:
        return datetime.fromtimestamp(int(match[1]) if match else 0, UTC).date()
    except (OverflowError, OSError, ValueError):
        return date(1970, 1, 1)


def _listed(repository: str, commit: str, url: str) -> Iterator[tuple[str, tuple[str, int, int]]]:
    """Yield the files of a commit, path -> object, mode and size: plain ones of a bounded size."""
    said = _git("-C", repository, "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
    count = total = 0
    for entry in said.split("\0"):
        about, tab, path = entry.partition("\t")
        fields = about.split()
        if not tab or len(fields) != 4 or fields[1] != "blob" or not _is_plain(path):
            continue
        mode, size = (
            _MODES.get(fields[0]),
            int(fields[3]) if fields[3].isdigit() else _MOST_BYTES + 1,
        )
        if mode is None or size > _MOST_BYTES:
            continue
        count, total = count + 1, total + size
        if count > _MOST_FILES or total > _MOST_IN_ALL:
            raise PlanError(
                f"{url}: found more than {_MOST_FILES:,} files or {_MOST_IN_ALL:,} bytes; expected "
                "a repository of recipes"
            )
        yield path, (fields[2], mode, size)


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    return (
        len(parts) <= _DEEPEST
        and all(0 < len(part) <= _LONGEST and part.isprintable() for part in parts)
        and not any(part in (".", "..") or part.lower().startswith(".git") for part in parts)
        and PurePosixPath(path).is_relative_to("")
        and "\\" not in path
    )


def _write(repository: str, files: Mapping[str, tuple[str, int, int]], folder: Path) -> None:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write("".join(f"{each}\n" for each, _, _ in files.values()).encode())
        given.seek(0)
        _run(["-C", repository, "cat-file", "--batch"], given, said)
        said.seek(0)
        for path, (name, mode, size) in files.items():
            head = said.readline(200).split()
            if len(head) != 3 or head[0].decode() != name or int(head[2]) != size:
                raise PlanError(f"{path}: git has not given this file; expected all of the commit")
            content = said.read(size)
            said.read(1)
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            # Names that differ in their case alone are one on some machines: the first stays.
            with contextlib.suppress(FileExistsError), place.open("xb") as file:
                file.write(content)
                place.chmod(mode)


def _git(*words: str) -> str:
    """Run git, and return what it prints.

    Raises:
        PlanError: It is not there, or fails.
    """
    with tempfile.TemporaryFile() as said:
        _run(list(words), None, said)
        said.seek(0)
        return said.read().decode(errors="replace")


def _run(words: list[str], given: object, said: object) -> None:
    settings = ("core.hooksPath=/dev/null", "gc.auto=0", "maintenance.auto=false")
    command = ["git", *(word for each in settings for word in ("-c", each)), *words]
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                command,
                stdin=given or subprocess.DEVNULL,  # type: ignore[call-overload]
                stdout=said,
                stderr=log,
                env=_environment(),
                cwd="/",
                preexec_fn=_bounded,
                # With what it starts, it is ended as one.
                start_new_session=True,
            )
        except FileNotFoundError:
            raise PlanError(
                "git: found no such program; expected it: apt-get install git"
            ) from None
        try:
            status = process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise PlanError(f"git: not done after {_TIMEOUT} s; expected an answer") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        words_of_git = log.read(20_000).decode(errors="replace").strip()
    if status:
        raise PlanError(_explained(words_of_git))


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_PACK, _MOST_PACK))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _environment() -> dict[str, str]:
    """Return git's environment: no prompts, no other protocols, nothing of a repository around."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return kept | {
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }


def _explained(said: str) -> str:
    """Say in plain words why git failed."""
    line = next((each for each in said.splitlines() if each.startswith("fatal")), said[-300:])
    line = line.removeprefix("fatal: ").removeprefix("remote error: ").strip() or "no words"
    for pattern, words in (
        (
            r"not our ref|unadvertised object|couldn't find remote ref",
            "found no such commit in the repository; expected one that it has",
        ),
        (
            r"Could not resolve host|unable to access|Connection (refused|timed out)|Network is",
            "cannot be reached; expected a network that leads there, or a commit that was fetched "
            "before",
        ),
        (
            r"could not read Username|Authentication failed|Permission denied|not found",
            "found no such repository, or none that you may read; expected a public one, or a "
            "login by ssh or git's credential helper",
        ),
        (r"transport '.*' not allowed", "expected an address of https://, ssh:// or file://"),
        (r"dubious ownership", "found a folder of another user's; expected one of your own"),
        (r"does not appear to be a git repository", "found no repository of git; expected one"),
    ):
        if re.search(pattern, said):
            return f"git: {words} ({line[:300]})"
    return f"git: failed ({line[:300]})"
