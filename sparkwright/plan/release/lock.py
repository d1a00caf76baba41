"""The lock: digests and commits of the names in recipes, so that every Spark gets the same bits.

It is beside the inventory: ``sparks.lock.yaml`` for ``sparks.yaml``.
"""

import hashlib
import re
import sys
from collections.abc import Collection, Iterable
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Annotated, Self

from pydantic import AfterValidator, Field

from sparkwright.common import yaml
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import HARDWARE
from sparkwright.common.local_file import UnmergedError, read_text, write_file
from sparkwright.common.schema import Model, Text, matching, parse
from sparkwright.declared.recipe.recipe import Checkpoint, Recipe
from sparkwright.plan.release.model_config import Shape

_HEADER = """\
# What names stood for when they were first used. Written by a run and by `sparkwright lock`, which
# also refreshes it (--refresh). Not meant to be edited. `source` says who publishes it;
# without one it is what the registry or the hub said on that day, and nobody else was asked.
"""
# Begins the names of our own files in a checkpoint's folder: a record, or a partial download.
_OURS = ".sparkwright"
_DAY = "a date in quotes, such as '2026-04-19'"


def inside(path: str) -> str:
    """Accept only a path that stays in its folder: a server names the files to write."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or not path.isprintable():
        raise ValueError("a relative path without '..'")
    if parts[0].startswith(_OURS):
        raise ValueError(f"a path that does not begin with {_OURS}: these are Sparkwright's own")
    return path


def _day(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(_DAY) from None
    return text


Digest = Annotated[
    str, matching(re.compile("sha256:[0-9a-f]{64}"), "sha256: and 64 hexadecimal digits")
]
Sha256 = Annotated[str, matching(re.compile("[0-9a-f]{64}"), "64 hexadecimal digits")]
Sha1 = Annotated[str, matching(re.compile("[0-9a-f]{40}"), "40 hexadecimal digits")]


class LockedFile(Model):
    """A file of a checkpoint; an LFS file has a sha256, another git's blob hash."""

    size: int = Field(ge=0, description="bytes")
    sha256: Sha256 | None = Field(default=None, description="64 hexadecimal digits")
    git: Sha1 | None = Field(default=None, description="40 hexadecimal digits")


class CheckpointLock(Model):
    """A repository at one commit, and the day of that in UTC.

    The shape is None if there is no ``config.json``, or not that of a supported model; the source
    is None if only the hub gave the commit.
    """

    repo: str = Field(description="a repository, OWNER/NAME")
    revision: str = Field(description="a branch, tag or commit")
    commit: Sha1 = Field(description="a commit of 40 hexadecimal digits")
    date: Annotated[str, AfterValidator(_day)] | None = Field(default=None, description=_DAY)
    source: Text | None = Field(default=None, description="where it is published")
    shape: Shape | None = None
    files: dict[Annotated[str, AfterValidator(inside)], LockedFile] = Field(
        min_length=1, description="a mapping of files, at least one"
    )

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


class ImageLock(Model):
    """An image for one platform.

    Its digest is the index's, if there is one; that of its configuration identifies the content of
    every layer, and so a copy from another Docker. Its size is that of the compressed layers.
    """

    digest: Digest = Field(description="sha256:, and 64 hexadecimal digits")
    config: Digest = Field(description="sha256:, and 64 hexadecimal digits")
    size: int = Field(ge=0, description="bytes")
    source: Text | None = Field(default=None, description="where it is published")


class Lock(Model):
    """Images by `image_key`, checkpoints by `checkpoint_key`."""

    images: dict[str, ImageLock] = Field(
        default_factory=dict, description="a mapping of images, each with its digest"
    )
    checkpoints: dict[str, CheckpointLock] = Field(
        default_factory=dict, description="a mapping of checkpoints, each with its commit"
    )

    def image(self, recipe: Recipe) -> ImageLock | None:
        """Return the locked image of a recipe; None if it is not locked yet."""
        return self.images.get(image_key(recipe))

    def checkpoint(self, checkpoint: Checkpoint) -> CheckpointLock | None:
        """Return the locked checkpoint; None if it is not locked yet."""
        return self.checkpoints.get(checkpoint_key(checkpoint))

    def part(self, recipes: Iterable[Recipe]) -> Self:
        """Return what it has of the names in recipes."""
        names = names_of(recipes)
        images = {name: each for name, each in self.images.items() if name in names}
        checkpoints = {name: each for name, each in self.checkpoints.items() if name in names}
        return type(self)(images=images, checkpoints=checkpoints)

    def folder(self, checkpoint: Checkpoint) -> str:
        """Return the folder of a locked checkpoint on a Spark, below the root.

        Each commit, and each choice of files that a recipe makes, has one of its own.
        """
        commit, files = self.checkpoints[checkpoint_key(checkpoint)].commit[:12], checkpoint.files
        chosen = "\n".join(sorted({*files})) if files else ""
        mark = f"-{hashlib.sha256(chosen.encode()).hexdigest()[:8]}" if chosen else ""
        return f"{checkpoint.folder}@{commit}{mark}"


def places(repo: str, folder: str, folders: Iterable[str]) -> list[str]:
    """Return where a Spark may have a checkpoint's files already, in `model_folders`."""
    owner, _, name = repo.partition("/")
    cache = f"models--{owner}--{name}"
    below = dict.fromkeys(
        (f"{cache}/blobs", f"hub/{cache}/blobs", repo, name, folder.partition("@")[0])
    )
    return [f"{base}/{place}" for base in folders for place in below]


def image_key(recipe: Recipe) -> str:
    """Return the name of a recipe's image in a lock: its reference, and any arch but arm's."""
    arch = HARDWARE[recipe.hardware[0]].arch
    return recipe.base_image if arch in (None, "aarch64") else f"{recipe.base_image} on {arch}"


def checkpoint_key(checkpoint: Checkpoint) -> str:
    """Return the name of a checkpoint in a lock: ``repo@revision``, and a recipe's own `files`."""
    files = f" ({', '.join(sorted({*checkpoint.files}))})" if checkpoint.files else ""
    return f"{public_key(checkpoint)}{files}"


def names_of(recipes: Iterable[Recipe]) -> dict[str, None]:
    """Return all names of recipes that a lock has, each once."""
    found: dict[str, None] = {}
    for recipe in recipes:
        keys = (image_key(recipe), *map(checkpoint_key, recipe.checkpoints.values()))
        found |= dict.fromkeys(keys)
    return found


def public_key(checkpoint: Checkpoint) -> str:
    """Return what others name a checkpoint by: ``repo@revision``."""
    return f"{checkpoint.repo}@{checkpoint.revision}"


def lock_path(inventory: Path) -> Path:
    """Return the lock file of an inventory file: ``sparks.yaml`` -> ``sparks.lock.yaml``."""
    return inventory.with_suffix(".lock.yaml")


def read_lock(path: Path) -> Lock:
    """Read a lock file; without a file, the lock is empty."""
    remedy = (
        f"Runs write {path}; it is not meant to be edited. Get it back: git checkout -- {path}; or "
        "delete it and run again, which may choose newer versions"
    )
    try:
        text = read_text(path, "the lock, a file of this user", yaml.MOST_BYTES)
        if text is None:
            return Lock()
        return parse(Lock, yaml.parse(text, str(path)) or {}, str(path))
    except UnmergedError:
        raise
    except PlanError as error:
        if any("found an unknown key" in problem for problem in error.problems):
            remedy += ". If a newer Sparkwright has written it, update this one"
        raise PlanError(*error.problems, remedy) from None


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock file in one step, sorted: the same lock is the same bytes. Says so to people."""
    write_file(path, _HEADER + yaml.dump(lock.model_dump(exclude_none=True), sort_keys=True))
    print(f"wrote {path}: what the names in recipes stand for; keep it in git", file=sys.stderr)


def outdated(recipes: Iterable[Recipe], lock: Lock) -> list[str]:
    """Return the problems, for a PlanError, of commits that are older than their recipe accepts.

    A commit of unknown date passes.
    """
    return [
        f"recipe {recipe.name}: checkpoints.{name}: found commit {locked.commit[:12]} of "
        f"{locked.date} for {checkpoint_key(checkpoint)}; expected one of {checkpoint.not_before} "
        "or later: with an older one the engine fails (`not_before` in the recipe). Ask the hub "
        f"again by `{next_line('lock', f'--refresh {recipe.name}')}`, and the next run "
        "fetches the files anew"
        for recipe in recipes
        for name, checkpoint in recipe.checkpoints.items()
        if checkpoint.not_before
        and (locked := lock.checkpoint(checkpoint))
        and locked.date
        and date.fromisoformat(locked.date) < checkpoint.not_before
    ]


def unresolved(recipes: Collection[Recipe], lock: Lock, path: str) -> list[str]:
    """Return the problems, for a PlanError, of recipes' names that a lock lacks."""
    return [
        f"{path}: {name} is not in the lock yet; {next_line('apply')} records it"
        for name in names_of(recipes)
        if name not in lock.images and name not in lock.checkpoints
    ]


def diff(old: Lock, new: Lock) -> list[str]:
    """Return the changes from one lock to another, a line for each name, sorted."""
    before, after = _versions(old), _versions(new)
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            lines.append(f"- {name}: {before[name]}")
        elif name not in before:
            lines.append(f"+ {name}: {after[name]}")
        elif before[name] != after[name]:
            lines.append(f"~ {name}: {before[name]} -> {after[name]}")
    return lines


def _versions(lock: Lock) -> dict[str, str]:
    found = {f"image {name}": f"{it.digest}, {it.size:,} bytes" for name, it in lock.images.items()}
    for name, it in lock.checkpoints.items():
        version = f"{it.commit} of {it.date}" if it.date else it.commit
        found[f"checkpoint {name}"] = f"{version}, {len(it.files)} files, {it.size:,} bytes"
    return found
