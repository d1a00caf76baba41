"""Fills and refreshes the lock beside an inventory."""

from __future__ import annotations

import platform
import re
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import HARDWARE
from sparkwright.common.schema import unknown
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.settings import read_settings
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Checkpoint, Recipe
from sparkwright.plan.release.bundle import Bundle
from sparkwright.plan.release.lock import (
    CheckpointLock,
    ImageLock,
    Lock,
    checkpoint_key,
    diff,
    image_key,
    lock_path,
    outdated,
    public_key,
    read_lock,
    unresolved,
    write_lock,
)
from sparkwright.plan.release.needed_files import choice_of
from sparkwright.plan.release.release import repository
from sparkwright.plan.release.token import Hub

T = TypeVar("T")
NONE: Mapping[str, str] = MappingProxyType({})
_VERSION = re.compile(r"sha256:[0-9a-f]{64}|[0-9a-f]{40}")

# pyinfra runs a deploy for all hosts as greenlets of one process: the first resolves, others wait.
_turn = threading.Lock()
_known: dict[Path, Lock] = {}


@cache
def published() -> Mapping[str, Mapping[str, str]]:
    """Return the digests and commits that public sources give for names in our recipes."""
    found: Mapping[str, Mapping[str, str]] = yaml.load(Path(__file__).with_name("known.yaml"))
    return found


def ensure_lock(
    inventory: Path,
    recipes: Collection[Recipe],
    endpoint: str | None,
    token: str | None,
    record: bool = True,
    check: Callable[[Lock | None], None] | None = None,
    bundle: Bundle | None = None,
    mirrors: Mapping[str, str] = NONE,
) -> Lock:
    """Read the lock of an inventory; resolve and record the names of recipes that it lacks.

    A bundle is asked instead of hub and registries, and has to have all that the lock names. With
    `check`, the caller may refuse by a PlanError before names are looked up: it gets the present
    lock, or None if there is no file. After an error nothing is recorded.
    """
    path = lock_path(inventory).absolute()
    with _turn:
        is_new = path not in _known and not path.exists()
        old = _known.get(path) or read_lock(lock_path(inventory))
        if check and unresolved(recipes, old, str(path)):
            check(None if is_new else old)
        if bundle:
            new = _from_bundle(old, recipes, bundle)
        else:
            new = resolve(old, recipes, endpoint, token, mirrors=mirrors)
        if new != old and record:
            record_lock(lock_path(inventory), new)
        _known[path] = new
        return new


def _from_bundle(lock: Lock, recipes: Collection[Recipe], bundle: Bundle) -> Lock:
    """Return a lock with the names of recipes as a bundle has them."""
    part = bundle.index.lock.part(recipes)
    images, checkpoints = part.images | lock.images, part.checkpoints | lock.checkpoints
    new = Lock(images=images, checkpoints=checkpoints)
    problems = [
        line for recipe in recipes for line in (*outdated(recipe, new), *bundle.lacks(recipe, new))
    ]
    if problems:
        raise PlanError(*dict.fromkeys(problems))
    return new


def record_lock(path: Path, lock: Lock) -> None:
    """Write a lock, and say so; raises as `write_lock`."""
    write_lock(path, lock)
    what = "what the names in recipes stand for"
    print(f"wrote {path}: {what}; keep it in git", file=sys.stderr)


def resolve(
    lock: Lock,
    recipes: Collection[Recipe],
    endpoint: str | None,
    token: str | None,
    refresh: bool = False,
    adopted: Mapping[str, str] = NONE,
    mirrors: Mapping[str, str] = NONE,
) -> Lock:
    """Return a lock with the names of recipes resolved; to `refresh`, also those that are in it.

    `adopted` are the digests of images and commits of repositories to take, by name.
    """
    images, checkpoints = dict(lock.images), dict(lock.checkpoints)
    problems: dict[str, None] = {}
    seen: set[str] = set()

    def fill(found: dict[str, T], key: str, ask: Callable[[], T]) -> None:
        if key not in seen and (refresh or key not in found):
            seen.add(key)
            try:
                found[key] = ask()
            except PlanError as error:
                problems.update(dict.fromkeys(error.problems))

    chosen = Lock() if refresh else lock
    for recipe in recipes:
        fill(images, image_key(recipe), partial(_image, recipe, adopted, mirrors))
        for name, checkpoint in recipe.checkpoints.items():
            commit = adopted.get(checkpoint.repo) or _locked_commit(checkpoint, chosen)
            ask = partial(_checkpoint, recipe, name, commit, endpoint, token)
            fill(checkpoints, checkpoint_key(checkpoint), ask)
    new = Lock(images=images, checkpoints=checkpoints)
    problems.update(dict.fromkeys(line for recipe in recipes for line in outdated(recipe, new)))
    if problems:
        raise PlanError(*problems)
    return new


def _image(recipe: Recipe, adopted: Mapping[str, str], mirrors: Mapping[str, str]) -> ImageLock:
    # Most runs resolve nothing, and the client takes a while to import.
    from sparkwright.plan.release.resolve import resolve_image

    name = recipe.base_image
    place, known = repository(name), published().get(name, NONE)
    digest = known.get("version")
    if "@" not in name:
        digest = adopted.get(place, digest)
    arch = HARDWARE[recipe.hardware[0]].arch or platform.machine()
    image = resolve_image(f"{place}@{digest}" if digest else name, arch, mirrors)
    source = known.get("source") if known.get("version") == digest else None
    return image.model_copy(update={"source": source})


def _checkpoint(
    recipe: Recipe, name: str, commit: str | None, endpoint: str | None, token: str | None
) -> CheckpointLock:
    from sparkwright.plan.release.resolve import resolve_checkpoint

    checkpoint, revision = recipe.checkpoints[name], recipe.checkpoints[name].revision
    known = published().get(public_key(checkpoint), NONE)
    asked = known.get("version", revision)
    if commit and not _VERSION.fullmatch(revision):
        asked = commit
    choice = choice_of(recipe, name)
    locked = resolve_checkpoint(checkpoint.repo, asked, endpoint, token, choice)
    source = known.get("source") if known.get("version") == asked else None
    return locked.model_copy(update={"revision": revision, "source": source})


def _locked_commit(checkpoint: Checkpoint, lock: Lock) -> str | None:
    """Return the commit that the lock has for another choice of a repository's files."""
    names = (checkpoint.repo, checkpoint.revision)
    found = (each for each in lock.checkpoints.values() if (each.repo, each.revision) == names)
    return next((each.commit for each in found), None)


def _adopted(versions: Collection[str], recipes: Collection[Recipe]) -> dict[str, str]:
    """Return digests and commits by the names of images and repositories that recipes have."""
    images = {repository(recipe.base_image) for recipe in recipes}
    repos = {each.repo for recipe in recipes for each in recipe.checkpoints.values()}
    found: dict[str, str] = {}
    problems: list[str] = []
    for version in versions:
        name, _, pin = version.rpartition("@")
        if not (name and _VERSION.fullmatch(pin)):
            problems.append(
                f"--adopt: found {version}; expected NAME@sha256:… of an image, or "
                "OWNER/NAME@COMMIT of a checkpoint"
            )
            continue
        problems += unknown("--adopt", [name], images if ":" in pin else repos)
        if found.setdefault(name, pin) != pin:
            problems.append(f"--adopt: found two versions of {name}; expected one")
    if problems:
        raise PlanError(*problems)
    return found


def _mirrors(words: Collection[str]) -> Mapping[str, str]:
    """Return the mirrors of the command line, checked as those of the settings."""
    if wrong := [word for word in words if "=" not in word]:
        raise PlanError(f"--registry-mirror: found {wrong[0]}; expected REGISTRY=MIRROR")
    pairs = dict(word.split("=", 1) for word in words)
    return read_settings({"registry_mirrors": pairs}, "--registry-mirror").registry_mirrors


def update(
    inventory: Path,
    hub: Hub,
    refresh: bool = False,
    names: Collection[str] = (),
    adopt: Collection[str] = (),
    mirrors: Collection[str] = (),
    check: bool = False,
) -> list[str]:
    """Bring the lock of an inventory up to date, unless to `check`. Returns a line for each change.

    Args:
        names: The recipes to refresh; none named means all in use.
        adopt: Versions to take of what the lock lacks, as a Spark serves them:
            ``NAME@sha256:…`` of an image, ``OWNER/NAME@COMMIT`` of a checkpoint.
        mirrors: ``REGISTRY=MIRROR``, as `registry_mirrors`.
    """
    path = lock_path(inventory)
    used = [load_recipe(name) for name in load_fleet(inventory).recipes]
    if problems := unknown("--refresh", names, {recipe.name for recipe in used}):
        raise PlanError(*problems)
    recipes = [recipe for recipe in used if not names or recipe.name in names]
    old, token = read_lock(path), hub.token()
    adopted = _adopted(adopt, recipes)
    new = resolve(old, recipes, hub.endpoint, token, refresh, adopted, _mirrors(mirrors))
    changes = diff(old, new)
    if changes and not check:
        record_lock(path, new)
    return changes
