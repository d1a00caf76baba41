"""Fills a bundle: a folder with all that the replicas of an inventory need of the internet.

FOLDER/bundle.json records the digests of weights, images, wheels and packages.
"""

from __future__ import annotations

import fcntl
import json
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha1
from pathlib import Path

from sparkwright.bundle.images import fetch_image
from sparkwright.bundle.packages import download_packages, ubuntu_sources
from sparkwright.bundle.weights import download_weights
from sparkwright.bundle.wheels import download_wheels
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import HARDWARE
from sparkwright.common.local_file import unwritable, write_file
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import PACKAGES as INSTALLED
from sparkwright.common.progress import size_text
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.recipe.loader import load_recipe, recipe_names
from sparkwright.recipe.recipe import Recipe
from sparkwright.release.bundle import (
    IMAGES,
    INDEX,
    PACKAGES,
    WHEELS,
    BundledFile,
    BundledImage,
    BundleIndex,
    checkpoint_folder,
    file_hash,
    unbundled,
)
from sparkwright.release.ensure import record_lock, resolve
from sparkwright.release.lock import (
    ImageLock,
    Lock,
    LockedFile,
    checkpoint_key,
    image_key,
    lock_path,
    read_lock,
)
from sparkwright.release.registry import registry_architecture
from sparkwright.release.release import repository
from sparkwright.release.token import Hub

# Bytes that stay free on this machine's disk.
_RESERVE = 1024**3
# Bytes of wheels and packages, roughly: those of a gateway are half of it.
_REST = 400 * 10**6
_EVERY_ARCHITECTURE = ("aarch64", "x86_64")


def fill(folder: Path, inventory: Path, hub: Hub, apt: Sequence[str] = ()) -> str:
    """Fill a bundle; what is there is not fetched again. Returns what to do with it.

    Args:
        inventory: The inventory file, of whose replicas all is fetched.
        apt: Lines of apt's sources.list for the Sparks' packages; none for Ubuntu 24.04's archive.

    Raises:
        PlanError: Something cannot be fetched, or the folder not be filled.
    """
    fleet = load_fleet(inventory, recipe_names())
    recipes = [load_recipe(name) for name in fleet.recipes]
    if problems := [problem for recipe in recipes for problem in unbundled(recipe)]:
        raise PlanError(*problems)
    lock = _locked(inventory, hub, recipes)
    with _alone(folder):
        _check_space(folder, lock)
        for locked in lock.checkpoints.values():
            _say(f"weights of {locked.repo}: {size_text(locked.size)}")
            download_weights(locked, hub, folder)
        images = _fetch_images(folder, recipes, lock)
        architectures = sorted(_architectures(fleet))
        _say("wheels: for Python 3.12 and 3.13, on " + " and ".join(architectures))
        for subject in ("weights", *(["gateway"] if fleet.gateway else [])):
            requirements = HOST_FILES / subject / "requirements.txt"
            download_wheels(requirements, architectures, folder / WHEELS)
        for name in map(registry_architecture, architectures):
            sources = list(apt) or ubuntu_sources(name)
            download_packages(INSTALLED, name, sources, folder / PACKAGES / name, _say)
        index = _index(folder, lock, images)
    size = sum(file.size for file in index.files.values())
    return (
        f"{folder}: complete, {len(index.files)} files, {size_text(size)}. Next: copy the folder "
        f"to the machine that runs Sparkwright at the site, and write into {inventory} there, with "
        f"the path where it is then:\n\nsource:\n  bundle: {folder.absolute()}\n  sha256: "
        f"{file_hash(folder / INDEX)}\n\nTake the last line there by another way than the disk: it "
        f"vouches for all that is on it. Then: {next_line('apply')}"
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other runs from filling a folder.

    Raises:
        PlanError: One does, or the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise PlanError(
            f"{folder}: found another run that fills it; expected none: wait for its end"
        ) from None
    except OSError as error:
        raise unwritable(folder, error) from None


def _locked(inventory: Path, hub: Hub, recipes: Sequence[Recipe]) -> Lock:
    """Return the part of the lock that the recipes name, completed and recorded."""
    path = lock_path(inventory)
    old = read_lock(path)
    new = resolve(old, recipes, hub.endpoint, hub.token())
    if new != old:
        record_lock(path, new)
    used = [each for recipe in recipes for each in recipe.checkpoints.values()]
    return Lock(
        images={key: new.images[key] for key in map(image_key, recipes)},
        checkpoints={key: new.checkpoints[key] for key in map(checkpoint_key, used)},
    )


def _architectures(fleet: Fleet) -> set[str]:
    """Return the processors of a fleet, as ``uname -m`` prints them."""
    found = {HARDWARE[spark.hardware].arch or platform.machine() for spark in fleet.sparks.values()}
    gateway = fleet.gateway
    if gateway and gateway.local:
        found.add(platform.machine())
    elif gateway and not gateway.spark:
        # Only a run will know.
        found.update(_EVERY_ARCHITECTURE)
    return found


def _check_space(folder: Path, lock: Lock) -> None:
    """Say how much there is to fetch; refuse a disk that is too small."""
    weights = sum(each.size for each in lock.checkpoints.values())
    layers = sum(each.size for each in lock.images.values())
    there = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    free = shutil.disk_usage(folder).free
    _say(
        f"{folder}: {size_text(weights)} of weights, {size_text(layers)} of images, up to "
        f"{size_text(_REST)} of wheels and packages; {size_text(there)} are there, "
        f"{size_text(free)} free"
    )
    needed = max(0, weights + layers + _REST - there) + _RESERVE
    if needed > free:
        raise PlanError(f"{folder}: found {size_text(free)} free; expected {size_text(needed)}")


def _fetch_images(folder: Path, recipes: Sequence[Recipe], lock: Lock) -> dict[str, BundledImage]:
    found: dict[str, BundledImage] = {}
    for recipe in recipes:
        key, arch = image_key(recipe), HARDWARE[recipe.hardware[0]].arch or platform.machine()
        reference = f"{repository(recipe.base_image)}@{lock.images[key].digest}"
        if key not in found:
            known = _known_image(folder, key, lock.images[key])
            found[key] = known or fetch_image(reference, arch, folder / IMAGES, _say)
    return found


def _known_image(folder: Path, key: str, locked: ImageLock) -> BundledImage | None:
    """Return an image of the lock that an earlier run has brought whole."""
    try:
        image = BundleIndex.model_validate_json((folder / INDEX).read_bytes()).images[key]
    except (OSError, ValueError, KeyError):
        return None
    is_whole = all((folder / IMAGES / path).is_file() for path in image.blobs)
    return image if is_whole and image.top == locked.digest else None


def _index(folder: Path, lock: Lock, images: dict[str, BundledImage]) -> BundleIndex:
    """Hash what the bundle consists of, write its index, and return that.

    Raises:
        PlanError: A file is not what the lock, or its name, says.
    """
    _say(f"{folder}: computing the digest of each file")
    expected: dict[str, LockedFile | str | None] = {
        f"{checkpoint_folder(locked)}/{path}": file
        for locked in lock.checkpoints.values()
        for path, file in locked.files.items()
    }
    expected |= {f"{IMAGES}/{path}": Path(path).name for i in images.values() for path in i.blobs}
    for each in (WHEELS, PACKAGES):
        found = (place for place in (folder / each).rglob("[!.]*") if place.is_file())
        expected |= {place.relative_to(folder).as_posix(): None for place in found}
    files: dict[str, BundledFile] = {}
    for path, wanted in sorted(expected.items()):
        place = folder / path
        digest = file_hash(place)
        if isinstance(wanted, LockedFile):
            is_right = wanted.sha256 == digest if wanted.sha256 else wanted.git == _blob_hash(place)
        else:
            is_right = wanted in (None, digest)
        if not is_right:
            place.unlink()
            raise PlanError(
                f"{place}: found another content than was fetched; it is deleted: run again"
            )
        files[path] = BundledFile(size=place.stat().st_size, sha256=digest)
    index = BundleIndex(version=1, lock=lock, images=images, files=files)
    data = index.model_dump(mode="json", exclude_none=True)
    write_file(folder / INDEX, json.dumps(data, indent=1, sort_keys=True) + "\n")
    return index


def _blob_hash(path: Path) -> str:
    """Return the hash by which git names a small file."""
    content = path.read_bytes()
    return sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
