"""Compares a checkpoint's folder with the content that the lock requires."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from sparkwright.common.difference import Difference
from sparkwright.common.host_output import read_json
from sparkwright.plan.release.bundle import checkpoint_folder
from sparkwright.plan.release.lock import CheckpointLock, LockedFile

# Where fetch-weights keeps its record, in the folder itself.
RECORD = ".sparkwright.json"


@dataclass(frozen=True)
class Stamp:
    """Size (bytes), time of last change (ns) and inode, which show that a file is unchanged."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True)
class HashedFile:
    """A file whose content was hashed: its stamp at that time, and its hash."""

    stamp: Stamp
    hash: str


@dataclass(frozen=True)
class CheckpointFolder:
    """A checkpoint's folder on a Spark.

    Attributes:
        manifest: sha256 of its manifest; None without one.
        files: regular files by path in the folder, without Sparkwright's own.
        record: the files that fetch-weights verified, by path.
    """

    manifest: str | None = None
    files: Mapping[str, Stamp] = field(default_factory=dict)
    record: Mapping[str, HashedFile] = field(default_factory=dict)


def manifest_text(
    locked: CheckpointLock,
    endpoint: str = "",
    folders: Iterable[str] = (),
    *,
    share: str = "",
    bundled: bool = False,
) -> str:
    """Return the manifest of a checkpoint.

    Args:
        endpoint: URL of the hub that it comes from.
        folders: Those of the Spark that may have files of it.
        share: URL at the other Spark of a pair that it comes from instead.
        bundled: It comes with a bundle instead.
    """
    if share:
        source = {"source": share}
    elif bundled:
        source = {"bundle": f"bundle/{checkpoint_folder(locked)}"}
    else:
        source = {"endpoint": endpoint, **locked.model_dump(include={"repo", "commit"})}
    manifest = {**source, **locked.model_dump(include={"files"}, exclude_none=True)}
    if named := list(folders):
        manifest["folders"] = named
    return json.dumps(manifest, indent=1, sort_keys=True) + "\n"


def has_manifest(folder: CheckpointFolder, text: str) -> bool:
    """Tell whether the folder's manifest on the Spark is this text."""
    return folder.manifest == sha256(text.encode()).hexdigest()


def parse_record(text: str) -> dict[str, HashedFile]:
    """Return the files that fetch-weights recorded as verified; none if the record is damaged."""
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
    """Return the folders that the fact's lines describe: a kind and its values, with tabs between.

    Raises:
        ValueError: a line is malformed.
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
    """Return the differences of a folder from its checkpoint: path -> fault.

    Nothing is hashed: a file is correct while it is unchanged since its content was hashed.
    Additional files are faults, as vLLM loads whatever weights and configuration it finds, except
    for those whose names start with a dot.
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


def weights_difference(folder: str, wrong: Mapping[str, str]) -> Difference:
    """Return the difference of a checkpoint's folder by its faults, of which there is one."""
    path, trouble = next(iter(wrong.items()))
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return Difference(folder, "every file as the lock has it", f"{path} {trouble}{more}")


def _nanoseconds(seconds: str) -> int:
    """Return find's %T@ in nanoseconds; a float would lose the last digits."""
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 10**9 + int(fraction[:9].ljust(9, "0"))
