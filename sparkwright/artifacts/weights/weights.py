"""Compares a checkpoint's folder with the content that the lock requires."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from sparkwright.common.errors import Difference
from sparkwright.common.part import Bounded, Part
from sparkwright.plan.release.bundle import checkpoint_folder
from sparkwright.plan.release.lock import CheckpointLock, LockedFile

# Where fetch-weights keeps its record, in the folder itself.
RECORD = ".sparkwright.json"


class CheckpointFile(Bounded):
    """A file on a Spark: bytes, the hash that was computed of it, and whether it changed since."""

    size: int
    hash: str | None = None
    changed: bool = False


class CheckpointFolder(Bounded):
    """A checkpoint's folder on a Spark: sha256 of its manifest, and its files by path."""

    manifest: str | None
    files: dict[str, CheckpointFile]


class WeightFolders(Part):
    """Folders of checkpoints by their names below the root, read without reading weights."""

    part: ClassVar = "artifacts.weights"
    patience: ClassVar[float] = 60

    folders: dict[str, CheckpointFolder]


def manifest_text(
    locked: CheckpointLock,
    endpoint: str = "",
    folders: Iterable[str] = (),
    *,
    shares: Sequence[str] = (),
) -> str:
    """Return the manifest of a checkpoint: its files, and where they come from.

    Those are the URLs of other Sparks' shares, or of a hub, or else a bundle; before it, folders of
    the Spark.
    """
    source: dict[str, object]
    if shares:
        source = {"sources": [*shares]}
    elif endpoint:
        source = {"endpoint": endpoint, **locked.model_dump(include={"repo", "commit"})}
    else:
        source = {"bundle": f"bundle/{checkpoint_folder(locked)}"}
    manifest = {**source, **locked.model_dump(include={"files"}, exclude_none=True)}
    if named := list(folders):
        manifest["folders"] = named
    return json.dumps(manifest, indent=1, sort_keys=True) + "\n"


def differences(locked: CheckpointLock, folder: CheckpointFolder) -> dict[str, str]:
    """Return the differences of a folder from its checkpoint: path -> fault.

    Nothing is hashed: a file is correct while it is unchanged since its content was hashed.
    Additional files are faults, as vLLM loads whatever weights and configuration it finds, except
    for those whose names start with a dot.
    """
    wrong = {
        path: trouble
        for path, file in locked.files.items()
        if (trouble := _trouble(file, folder.files.get(path)))
    }
    wrong |= {
        path: "is not part of the checkpoint"
        for path in folder.files
        if path not in locked.files and not path.startswith(".")
    }
    return wrong


def _trouble(file: LockedFile, found: CheckpointFile | None) -> str | None:
    if found is None:
        return "is missing"
    if found.size != file.size:
        return f"has {found.size} bytes instead of {file.size}"
    if found.hash is None:
        return "has not been verified"
    if found.changed:
        return "was changed since it was verified"
    if found.hash != (file.sha256 or file.git):
        return "is of another commit"
    return None


def weights_difference(folder: str, wrong: Mapping[str, str]) -> Difference:
    """Return the difference of a checkpoint's folder by its faults, of which there is one."""
    path, trouble = next(iter(wrong.items()))
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return Difference(folder, "every file as the lock has it", f"{path} {trouble}{more}")
