"""Fills and refreshes the lock beside an inventory, and says where one is lost that is in use."""

import platform
import re
import threading
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, TypeVar

from sparkwright.common import yaml
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.hardware import HARDWARE
from sparkwright.common.part import Part
from sparkwright.common.schema import unknown
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.settings import read_settings
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
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
# The names that a host may have us print in a command line: an image's, or a checkpoint's.
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,250}@(sha256:[0-9a-f]{64}|[0-9a-f]{40})")

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
            write_lock(lock_path(inventory), new)
        _known[path] = new
        return new


def _from_bundle(lock: Lock, recipes: Collection[Recipe], bundle: Bundle) -> Lock:
    """Return a lock with the names of recipes as a bundle has them."""
    part = bundle.index.lock.part(recipes)
    images, checkpoints = part.images | lock.images, part.checkpoints | lock.checkpoints
    new = Lock(images=images, checkpoints=checkpoints)
    lacks = (line for recipe in recipes for line in bundle.lacks(recipe, new))
    refuse([*outdated(recipes, new), *lacks])
    return new


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
    problems: list[str] = []
    seen: set[str] = set()

    def fill(found: dict[str, T], key: str, ask: Callable[[], T]) -> None:
        if key not in seen and (refresh or key not in found):
            seen.add(key)
            try:
                found[key] = ask()
            except PlanError as error:
                problems.extend(error.problems)

    # Another choice of a repository's files has the commit that the lock has for the first.
    commits = {(each.repo, each.revision): each.commit for each in lock.checkpoints.values()}
    for recipe in recipes:
        fill(images, image_key(recipe), partial(_image, recipe, adopted, mirrors))
        for name, it in recipe.checkpoints.items():
            locked = None if refresh else commits.get((it.repo, it.revision))
            commit = adopted.get(it.repo) or locked
            ask = partial(_checkpoint, recipe, name, commit, endpoint, token)
            fill(checkpoints, checkpoint_key(it), ask)
    new = Lock(images=images, checkpoints=checkpoints)
    refuse([*problems, *outdated(recipes, new)])
    return new


def _image(recipe: Recipe, adopted: Mapping[str, str], mirrors: Mapping[str, str]) -> ImageLock:
    # Most runs resolve nothing, and the client takes a while to import.
    from sparkwright.plan.release.resolve import resolve_image

    name = recipe.base_image
    place, known = repository(name), published().get(name, NONE)
    digest = None if "@" in name else adopted.get(place, known.get("version"))
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
    refuse(unknown("--refresh", names, {recipe.name for recipe in used}))
    recipes = [recipe for recipe in used if not names or recipe.name in names]
    if wrong := [word for word in mirrors if "=" not in word]:
        raise PlanError(f"--registry-mirror: found {wrong[0]}; expected REGISTRY=MIRROR")
    named = {"registry_mirrors": dict(word.split("=", 1) for word in mirrors)}
    settings, old = read_settings(named, "--registry-mirror"), read_lock(path)
    adopted, token = _adopted(adopt, recipes), hub.token()
    new = resolve(old, recipes, hub.endpoint, token, refresh, adopted, settings.registry_mirrors)
    changes = diff(old, new)
    if changes and not check:
        write_lock(path, new)
    return changes


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
    refuse(problems)
    return found


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
    pins = {name: _lost(lock or Lock(), recipes, each) for name, each in sorted(served.items())}
    serving = [name for name in pins if (served[name].release if lock is None else pins[name])]
    if not serving:
        return None
    lost = dict.fromkeys(pin for name in serving for pin in pins[name])
    names = dict.fromkeys(pin.rpartition("@")[0] for pin in lost)
    found = "no such file" if lock is None else f"no entry for {' and '.join(names)}"
    who = " and ".join(f"{name} serves {served[name].release}" for name in serving)
    path, adopted = lock_path(inventory), " ".join(f"--adopt {pin}" for pin in lost)
    from_spark = f"  Or make it from what serves: {next_line('lock', adopted)}\n" if lost else ""
    return (
        f"{path}: found {found}, while {who}; expected what the names in recipes stood for: if "
        "they are looked up again, they may stand for other versions. Nothing was changed.\n"
        f"  Get the file from git: git checkout -- {path}; or from whoever deployed last.\n"
        f"{from_spark}  Or take what the names stand for today: {next_line('lock')}"
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
