"""The release that a Spark serves, and whether a lock still has what it was made of."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from sparkwright.common.command_line import next_line
from sparkwright.common.host_output import HostAnswer, read_json
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.release.lock import Lock, checkpoint_key, image_key, lock_path
from sparkwright.plan.release.release import repository

# The names that a host may have us print in a command line.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,250}@sha256:[0-9a-f]{64}")
_CHECKPOINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,250}@[0-9a-f]{40}")
# What a Spark says that serves nothing: no id of a release.
_NONE = "none"


@dataclass(frozen=True)
class Served:
    """The release that one Spark serves, and the vLLM, image and checkpoints that it was made of.

    An image that was built is not among the pins ``NAME@sha256:…`` and ``OWNER/NAME@COMMIT``.
    """

    release: str = ""
    vllm: str = ""
    pins: tuple[str, ...] = ()


class _Checkpoint(HostAnswer):
    repo: str
    commit: str


class _Release(HostAnswer):
    vllm: str = ""
    image: str = ""
    checkpoints: dict[str, _Checkpoint] = Field(default_factory=dict)


def served_script(root: str) -> str:
    """Return the POSIX shell script that reads what `current` names; it always prints something."""
    link = shlex.quote(f"{root}/current")
    return (
        f"[ -e {link} ] || {{ echo {_NONE}; exit 0; }}; "
        f'basename "$(readlink {link})" && cat {link}/release.json'
    )


def parse_served(output: Iterable[str]) -> Served:
    """Return what the script's output lines describe; raises ValueError."""
    release, *lines = output
    if release == _NONE and not lines:
        return Served()
    read = _Release.model_validate(read_json("\n".join(lines)))
    pins = [read.image] if _IMAGE.fullmatch(read.image) else []
    commits = (f"{each.repo}@{each.commit}" for each in read.checkpoints.values())
    return Served(release, read.vllm, (*pins, *filter(_CHECKPOINT.fullmatch, commits)))


def lost_pins(
    inventory: Path, lock: Lock | None, recipes: Collection[Recipe], served: Mapping[str, Served]
) -> str | None:
    """Return why a run may look up no names; None if no release was made of what they stood for."""
    pins = {name: _lost(lock or Lock(), recipes, each) for name, each in served.items()}
    serving = [
        name
        for name, each in sorted(served.items())
        if (each.release if lock is None else pins[name])
    ]
    if not serving:
        return None
    lost = list(dict.fromkeys(pin for name in serving for pin in pins[name]))
    names = dict.fromkeys(pin.rpartition("@")[0] for pin in lost)
    found = "no such file" if lock is None else f"no entry for {' and '.join(names)}"
    who = " and ".join(f"{name} serves {served[name].release}" for name in serving)
    path = lock_path(inventory)
    adopt = " ".join(f"--adopt {pin}" for pin in lost)
    ways = [
        f"Get the file from git: git checkout -- {path}; or from whoever deployed last.",
        *([f"Or make it from what serves: {next_line('lock', adopt)}"] if lost else []),
        f"Or take what the names stand for today: {next_line('lock')}",
    ]
    return "\n  ".join(
        [
            f"{path}: found {found}, while {who}; expected what the names in recipes stood for: if "
            "they are looked up again, they may stand for other versions. Nothing was changed.",
            *ways,
        ]
    )


def _lost(lock: Lock, recipes: Collection[Recipe], served: Served) -> list[str]:
    """Return the pins of a release that names stand for, and that a lock has not.

    A name that a recipe has anew stands for another version: what the release is made of is then in
    the lock, under the old name, or has another vLLM.
    """
    names = {
        repository(recipe.base_image)
        for recipe in recipes
        if recipe.vllm == served.vllm and image_key(recipe) not in lock.images
    } | {
        each.repo
        for recipe in recipes
        for each in recipe.checkpoints.values()
        if checkpoint_key(each) not in lock.checkpoints
    }
    locked = {f"{repository(name)}@{each.digest}" for name, each in lock.images.items()}
    locked |= {f"{each.repo}@{each.commit}" for each in lock.checkpoints.values()}
    return [pin for pin in served.pins if pin.rpartition("@")[0] in names and pin not in locked]
