"""The release that a Spark serves, and whether a lock still has what it was made of."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

from sparkwright.common.command_line import next_line
from sparkwright.common.part import Part
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.release.lock import Lock, checkpoint_key, image_key, lock_path
from sparkwright.plan.release.release import repository

# The names that a host may have us print in a command line: an image's, or a checkpoint's.
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,250}@(sha256:[0-9a-f]{64}|[0-9a-f]{40})")


class Served(Part):
    """The release that a replica of a Spark serves, and the vLLM and names that it was made of.

    Among its pins ``NAME@sha256:…`` and ``OWNER/NAME@COMMIT`` is the name of an image that was
    built, which is none.
    """

    part: ClassVar = "engines.served"

    release: str = ""
    vllm: str = ""
    pins: tuple[str, ...] = ()


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
    pins = filter(_PIN.fullmatch, served.pins)
    return [pin for pin in pins if pin.rpartition("@")[0] in names and pin not in locked]
