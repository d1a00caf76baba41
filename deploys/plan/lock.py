"""The lock: what names stood for when they were first used, so that every Spark gets the same bits.

It stands beside the inventory: ``sparks.yaml`` has ``sparks.lock.yaml``.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Annotated

import yaml as pyyaml
from pydantic import AfterValidator, Field

from deploys.plan import yaml
from deploys.plan.recipe import Checkpoint
from deploys.plan.schema import Model, matching, parse

_HEADER = """\
# What names stood for when they were first used. Written by a run and by `python -m deploys.lock`,
# which also refreshes it (--refresh). Not meant to be edited.
"""


def _hexadecimal(length: int, prefix: str = "") -> AfterValidator:
    pattern = re.compile(f"{prefix}[0-9a-f]{{{length}}}")
    return matching(pattern, f"{prefix}{length} hexadecimal digits")


def _inside(path: str) -> str:
    """Accept a file path that cannot leave its folder: it comes from a server and is written to."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or not path.isprintable():
        raise ValueError("a relative path without '..'")
    return path


_Digest = Annotated[str, _hexadecimal(64, "sha256:")]
Sha256 = Annotated[str, _hexadecimal(64)]
Sha1 = Annotated[str, _hexadecimal(40)]


class File(Model):
    """A file of a checkpoint: an LFS file is known by its sha256, another by git's blob hash."""

    size: int = Field(ge=0, description="bytes")
    sha256: Sha256 | None = Field(default=None, description="64 hexadecimal digits")
    git: Sha1 | None = Field(default=None, description="40 hexadecimal digits")


class CheckpointLock(Model):
    """A repository at one commit."""

    repo: str
    revision: str
    commit: Sha1 = Field(description="a commit of 40 hexadecimal digits")
    files: dict[Annotated[str, AfterValidator(_inside)], File] = Field(min_length=1)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


class ImageLock(Model):
    """An image for one platform.

    Attributes:
        digest: What it is pulled by; of the index where there is one.
        config: Digest of its configuration, which names the content of every layer: what is left
            to know an image by that was copied from another Docker, and not pulled.
        size: Compressed bytes of its layers.
    """

    digest: _Digest
    config: _Digest
    size: int = Field(ge=0, description="bytes")


class Lock(Model):
    """Images by reference, checkpoints by ``repo@revision``."""

    images: dict[str, ImageLock] = Field(default_factory=dict)
    checkpoints: dict[str, CheckpointLock] = Field(default_factory=dict)

    def checkpoint(self, checkpoint: Checkpoint) -> CheckpointLock | None:
        """What a recipe's checkpoint stood for, or None: it is not locked yet."""
        return self.checkpoints.get(checkpoint_key(checkpoint))


def checkpoint_key(checkpoint: Checkpoint) -> str:
    """The name of a checkpoint in a lock: ``repo@revision``."""
    return f"{checkpoint.repo}@{checkpoint.revision}"


def lock_path(inventory: Path) -> Path:
    """Where the lock of an inventory file is: ``sparks.yaml`` -> ``sparks.lock.yaml``."""
    return inventory.with_suffix(".lock.yaml")


def read_lock(path: Path) -> Lock:
    """Read a lock; one that does not exist yet is empty.

    Args:
        path: The lock file.

    Raises:
        PlanError: The file is no lock.
    """
    return parse(Lock, yaml.load(path), str(path)) if path.exists() else Lock()


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock in one step, sorted, so that the same lock is the same bytes.

    Args:
        path: The lock file.
        lock: Its new content.
    """
    data = lock.model_dump(exclude_none=True)
    text = _HEADER + pyyaml.safe_dump(data, sort_keys=True, default_flow_style=False, width=1000)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        file.write(text)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)


def diff(old: Lock, new: Lock) -> list[str]:
    """Say what changed from one lock to another, one line a name, sorted.

    Args:
        old: The lock as it was.
        new: The lock as it is.
    """
    before, after = _versions(old), _versions(new)
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            lines.append(f"+ {name}: {after[name]}")
        elif name not in after:
            lines.append(f"- {name}: {before[name]}")
        elif before[name] != after[name]:
            lines.append(f"~ {name}: {before[name]} -> {after[name]}")
    return lines


def _versions(lock: Lock) -> dict[str, str]:
    images = {
        f"image {ref}": f"{image.digest}, {image.size:,} bytes"
        for ref, image in lock.images.items()
    }
    checkpoints = {
        f"checkpoint {key}": f"{locked.commit}, {len(locked.files)} files, {locked.size:,} bytes"
        for key, locked in lock.checkpoints.items()
    }
    return images | checkpoints
