"""The hub's repositories as folders: ROOT/<organisation>/<name>/v1/…, v2/…: one for each commit.

The folder's name is the commit's tag and the highest number is `main`, so adding a folder moves the
hub on. An empty file `gated` beside the commits restricts who may read.
"""

import datetime
import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.lab import cache

# The recipes' names stand for the same tiny files, so that a recipe runs in the lab unchanged.
PUBLISHED = {
    "sparkwright/tiny-qwen3.5-moe": "model",
    "AEON-7/Qwen3.6-35B-A3B-heretic-NVFP4": "model",
    "sparkwright/tiny-dflash": "dflash",
    "z-lab/Qwen3.6-35B-A3B-DFlash": "dflash",
    "sparkwright/gated-tiny": "model",
    "sparkwright/tiny-qwen3-texts": "texts",
}
GATED = {"sparkwright/gated-tiny"}

# Bytes above which a file goes to LFS; the real hub leaves this to .gitattributes and refuses
# plain files above 10 MiB, which no file of the tiny model reaches.
LFS_THRESHOLD = 1024 * 1024

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT_FOLDER = re.compile(r"v([1-9][0-9]*)")


@dataclass(frozen=True)
class File:
    """One file of a commit: `blob` is its git object, `sha256` the content where that is in LFS."""

    source: Path
    size: int
    blob: str
    sha256: str | None
    pointer_size: int

    @property
    def etag(self) -> str:
        """Return what the hub sends as ETag, without quotes."""
        return self.sha256 or self.blob


@dataclass(frozen=True)
class Commit:
    """One commit: `id` is 40 hex digits that follow from the content and the commits before."""

    id: str
    tag: str
    date: str
    files: dict[str, File]


@dataclass(frozen=True)
class Repository:
    """A repository with its commits, oldest first."""

    name: str
    gated: bool
    commits: tuple[Commit, ...]

    def find(self, revision: str) -> Commit | None:
        """Return the commit that a branch, a tag, or a commit id names; None if it names none."""
        if revision in ("main", "refs/heads/main"):
            return self.commits[-1]
        tag = revision.removeprefix("refs/tags/")
        return next((c for c in self.commits if revision == c.id or tag == c.tag), None)


def load(root: Path, name: str) -> Repository | None:
    """Read a repository from its folder, as it is now; None if there is none of that name."""
    commits = _commits(root, name) if _NAME.fullmatch(name) else ()
    return Repository(name, (root / name / "gated").exists(), commits) if commits else None


def add_commit(root: Path, name: str, source: Path) -> str:
    """Publish a folder's files, linked where it can be, as a repository's newest commit."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"repository: found {name!r}; expected organisation/name")
    folder = root / name
    number = max(_numbers(folder), default=0) + 1
    # Complete before it has a commit's name: the server may be reading.
    partial = folder / f".v{number}.partial"
    shutil.copytree(source, partial, copy_function=_link_or_copy)
    partial.rename(folder / f"v{number}")
    return _commits(root, name)[-1].id


def ensure_repositories() -> Path:
    """Return the cached folder with the repositories that the lab serves; copy it to change it."""
    # Imported here: a hub that serves another folder needs nothing that makes models.
    from tests.lab import tiny_model, tiny_texts

    models, texts = tiny_model.ensure_models(), tiny_texts.ensure_models()

    def build(root: Path) -> None:
        for name, part in PUBLISHED.items():
            add_commit(root, name, texts / "model" if part == "texts" else models / part)
        for name in GATED:
            (root / name / "gated").touch()

    return cache.entry("hub", [models.name, texts.name, Path(__file__)], build)


def _commits(root: Path, name: str) -> tuple[Commit, ...]:
    folder = root / name
    commits: list[Commit] = []
    for number in _numbers(folder):
        source = folder / f"v{number}"
        files = {
            path.relative_to(source).as_posix(): _file(path)
            for path in sorted(source.rglob("*"))
            if path.is_file()
        }
        parent = commits[-1].id if commits else ""
        listing = "".join(f"{path} {file.etag}\n" for path, file in files.items())
        date = datetime.datetime.fromtimestamp(source.stat().st_mtime, datetime.UTC)
        commits.append(
            Commit(
                id=hashlib.sha1(f"{name}\n{parent}\n{listing}".encode()).hexdigest(),
                tag=source.name,
                date=date.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                files=files,
            )
        )
    return tuple(commits)


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    matches = (_COMMIT_FOLDER.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in matches if match)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _file(path: Path) -> File:
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=4096)
def _digest(path: Path, size: int, _mtime: int, _inode: int) -> File:
    """Hash a file once for as long as size, time and inode stay what they are."""
    content = path.read_bytes()
    if path.suffix != ".safetensors" and size <= LFS_THRESHOLD:
        return File(path, size, _git_blob(content), None, 0)
    sha256 = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
    return File(path, size, _git_blob(pointer.encode()), sha256, len(pointer))


def _git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
