"""The required content of a checkpoint's folder, and what it lacks."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from sparkwright.common.difference import Difference
from sparkwright.common.host_output import read_json
from sparkwright.release.lock import CheckpointLock, LockedFile

# Where fetch-weights keeps its record, in the folder itself.
RECORD = ".sparkwright.json"


@dataclass(frozen=True)
class Stamp:
    """The marks of a file that nobody touched: bytes, time of last change (ns), and inode."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True)
class HashedFile:
    """A file whose content was hashed: what it was then, and its hash."""

    stamp: Stamp
    hash: str


@dataclass(frozen=True)
class CheckpointFolder:
    """A checkpoint's folder on a Spark.

    Attributes:
        manifest: sha256 of its manifest; None without one.
        files: regular files by path in the folder, those that Sparkwright itself keeps left out.
        record: what fetch-weights found right, by path.
    """

    manifest: str | None = None
    files: Mapping[str, Stamp] = field(default_factory=dict)
    record: Mapping[str, HashedFile] = field(default_factory=dict)


def manifest_text(locked: CheckpointLock, endpoint: str) -> str:
    """Return the manifest of a checkpoint: the same lock is the same text.

    Args:
        endpoint: URL of the hub that has it.
    """
    data = locked.model_dump(include={"repo", "commit", "files"}, exclude_none=True)
    return _text({"endpoint": endpoint, **data})


def copy_manifest_text(locked: CheckpointLock, source: str) -> str:
    """Return the manifest of a checkpoint that comes from the other Spark of a pair.

    Args:
        source: URL of its folder there.
    """
    return _text({"source": source, **locked.model_dump(include={"files"}, exclude_none=True)})


def has_manifest(folder: CheckpointFolder, text: str) -> bool:
    """Tell whether the folder's manifest on the Spark is this text."""
    return folder.manifest == sha256(text.encode()).hexdigest()


def parse_record(text: str) -> dict[str, HashedFile]:
    """Return what fetch-weights recorded as verified; nothing of a record that is damaged."""
    try:
        return {
            path: HashedFile(
                Stamp(entry["size"], entry["mtime_ns"], entry["inode"]), str(entry["hash"])
            )
            for path, entry in read_json(text)["files"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def parse_folders(lines: Iterable[str]) -> dict[str, CheckpointFolder]:
    """Return the folders that the fact's lines describe: a kind and its values, parted by tabs.

    Raises:
        ValueError: a line of another make.
    """
    folders: dict[str, CheckpointFolder] = {}
    files: dict[str, Stamp] = {}
    name = ""
    for line in lines:
        kind, _, rest = line.partition("\t")
        if kind == "folder":
            name, files = rest, {}
            folders[name] = CheckpointFolder(files=files)
        elif kind == "manifest":
            folders[name] = replace(folders[name], manifest=rest.split()[0])
        elif kind == "record":
            folders[name] = replace(folders[name], record=parse_record(rest))
        elif kind == "file":
            size, changed, inode, path = rest.split("\t", 3)
            files[path] = Stamp(int(size), _nanoseconds(changed), int(inode))
        else:
            raise ValueError(line)
    return folders


def differences(locked: CheckpointLock, folder: CheckpointFolder) -> dict[str, str]:
    """Return what keeps the folder from being the checkpoint: path -> what is wrong with it.

    Nothing is hashed: a file counts as right while it is as it was when its hash was.
    Files that the checkpoint does not have are wrong too: vLLM loads weights and configuration
    by what it finds. Names that start with a dot are the exception.
    """
    wrong = {
        path: trouble
        for path, file in locked.files.items()
        if (trouble := _trouble(file, folder.files.get(path), folder.record.get(path)))
    }
    wrong |= {
        path: "is not part of the checkpoint"
        for path in folder.files
        if path not in locked.files and not path.startswith(".")
    }
    return wrong


def _text(manifest: Mapping[str, object]) -> str:
    return json.dumps(manifest, indent=1, sort_keys=True) + "\n"


def _trouble(file: LockedFile, found: Stamp | None, verdict: HashedFile | None) -> str | None:
    if found is None:
        return "is missing"
    if found.size != file.size:
        return f"has {found.size} bytes instead of {file.size}"
    if verdict is None:
        return "has not been verified"
    if verdict.stamp != found:
        return "was changed since it was verified"
    if verdict.hash != (file.sha256 or file.git):
        return "is of another commit"
    return None


def _nanoseconds(seconds: str) -> int:
    """Read find's %T@ exactly: a float would lose the last digits."""
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 10**9 + int(fraction[:9].ljust(9, "0"))


def weights_difference(folder: str, wrong: Mapping[str, str]) -> Difference:
    """Return one line for a checkpoint's folder.

    Args:
        folder: its path.
        wrong: what is wrong with files, by path in it; at least one.
    """
    path, trouble = next(iter(wrong.items()))
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return Difference(folder, "every file as the lock has it", f"{path} {trouble}{more}")
