"""Fills a bundle: a folder with all that the replicas of an inventory need of the internet.

FOLDER/bundle.json records the digests of weights, images, wheels and packages.
"""

from __future__ import annotations

import fcntl
import json
import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha1
from pathlib import Path

from huggingface_hub import constants, hf_hub_download

from sparkwright.artifacts.bundle.downloads import (
    download_packages,
    download_wheels,
    fetch_image,
    say,
    ubuntu_sources,
)
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.hardware import HARDWARE
from sparkwright.common.local_file import unwritable, write_file
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import PACKAGES as INSTALLED
from sparkwright.common.progress import size_text
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.release.bundle import (
    COMPILED,
    IMAGES,
    INDEX,
    PACKAGES,
    WHEELS,
    BundledFile,
    BundledImage,
    BundleIndex,
    archives,
    checkpoint_folder,
    file_hash,
    unbundled,
)
from sparkwright.plan.release.ensure import ensure_lock
from sparkwright.plan.release.lock import CheckpointLock, Lock, LockedFile, image_key
from sparkwright.plan.release.registry import registry_architecture
from sparkwright.plan.release.release import repository
from sparkwright.plan.release.token import Hub

# Bytes that stay free on this machine's disk.
_RESERVE = 1024**3
# Bytes up to which a file may be git's own and not LFS's: the hub takes 10 MiB.
_SMALL = 16 << 20
# Bytes of wheels and packages, roughly.
_REST = 200 * 10**6


def fill(folder: Path, inventory: Path, hub: Hub, apt: Sequence[str] = ()) -> str:
    """Fill a bundle for the replicas of an inventory, and return what to do with it.

    What is there is not fetched again. `apt` has lines of apt's sources.list for the Sparks'
    packages; none for Ubuntu 24.04's archive.
    """
    fleet = load_fleet(inventory)
    recipes = [load_recipe(name) for name in fleet.recipes]
    refuse(problem for recipe in recipes for problem in unbundled(recipe))
    lock = ensure_lock(inventory, recipes, hub.endpoint, hub.token()).part(recipes)
    with _alone(folder):
        _check_space(folder, lock)
        for locked in lock.checkpoints.values():
            _fetch_weights(locked, hub, folder)
        images = _fetch_images(folder, recipes, lock)
        architectures = _architectures(fleet)
        say("wheels: for Python 3.12 and 3.13, on " + " and ".join(architectures))
        for subject in ("artifacts/weights", *(["door/gateway"] if fleet.gateway else [])):
            requirements = HOST_FILES / subject / "requirements.txt"
            download_wheels(requirements, architectures, folder / WHEELS)
        for name in map(registry_architecture, architectures):
            sources = list(apt) or ubuntu_sources(name)
            download_packages(INSTALLED, name, sources, folder / PACKAGES / name)
        _take_compiled(folder, recipes)
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
    """Keep other runs from filling a folder."""
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


def _architectures(fleet: Fleet) -> list[str]:
    """Return the processors of a fleet, as ``uname -m`` prints them."""
    found = {HARDWARE[spark.hardware].arch or platform.machine() for spark in fleet.sparks.values()}
    if fleet.gateway and not fleet.gateway.spark:
        # Only a run will know that of its host.
        found |= {"aarch64", "x86_64"}
    return sorted(found)


def _check_space(folder: Path, lock: Lock) -> None:
    """Say how much there is to fetch; refuse a disk that is too small."""
    weights = sum(each.size for each in lock.checkpoints.values())
    layers = sum(each.size for each in lock.images.values())
    there = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    free = shutil.disk_usage(folder).free
    say(
        f"{folder}: {size_text(weights)} of weights, {size_text(layers)} of images, up to "
        f"{size_text(_REST)} of wheels and packages; {size_text(there)} are there, "
        f"{size_text(free)} free"
    )
    missing = max(0, weights + layers + _REST - there) + _RESERVE
    if missing > free:
        raise PlanError(f"{folder}: found {size_text(free)} free; expected {size_text(missing)}")


def _fetch_weights(locked: CheckpointLock, hub: Hub, folder: Path) -> None:
    """Download a checkpoint by huggingface_hub; its hashes are compared when the index is made."""
    say(f"weights of {locked.repo}: {size_text(locked.size)}")
    # With telemetry the library contacts the public hub, whatever the endpoint.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    place, token = folder / checkpoint_folder(locked), hub.token() or False
    fetch = partial(hf_hub_download, locked.repo, revision=locked.commit, local_dir=place)
    for path, file in locked.files.items():
        if (place / path).is_file() and (place / path).stat().st_size == file.size:
            continue
        try:
            fetch(path, endpoint=hub.endpoint, token=token)
        except Exception as error:
            # The library's client has errors of its own, which it does not export.
            where = f"{locked.repo}@{locked.commit[:12]}: {path}"
            raise PlanError(f"{where}: cannot be fetched ({error}); run again") from None
    # The library's notes of what is on its way.
    shutil.rmtree(place / ".cache", ignore_errors=True)


def _fetch_images(folder: Path, recipes: Sequence[Recipe], lock: Lock) -> dict[str, BundledImage]:
    try:
        known = BundleIndex.model_validate_json((folder / INDEX).read_bytes()).images
    except (OSError, ValueError):
        known = {}
    found: dict[str, BundledImage] = {}
    for recipe in recipes:
        key = image_key(recipe)
        image, digest = found.get(key) or known.get(key), lock.images[key].digest
        if (
            not image
            or image.top != digest
            or not all((folder / IMAGES / path).is_file() for path in image.blobs)
        ):
            arch = HARDWARE[recipe.hardware[0]].arch or platform.machine()
            reference = f"{repository(recipe.base_image)}@{digest}"
            image = fetch_image(reference, arch, folder / IMAGES)
        found[key] = image
    return found


def _take_compiled(folder: Path, recipes: Sequence[Recipe]) -> None:
    """Copy what this machine has of code that Sparks compiled for these recipes."""
    shutil.rmtree(folder / COMPILED, ignore_errors=True)
    for recipe in recipes:
        for archive in archives().glob(f"{recipe.name}-{'[0-9a-f]' * 8}.tar"):
            (folder / COMPILED).mkdir(exist_ok=True)
            shutil.copy(archive, folder / COMPILED)


def _index(folder: Path, lock: Lock, images: dict[str, BundledImage]) -> BundleIndex:
    """Hash what the bundle consists of, write its index, and return that."""
    say(f"{folder}: computing the digest of each file")
    expected: dict[str, LockedFile | None] = {
        f"{checkpoint_folder(locked)}/{path}": file
        for locked in lock.checkpoints.values()
        for path, file in locked.files.items()
    }
    for path in {path for image in images.values() for path in image.blobs}:
        expected[f"{IMAGES}/{path}"] = LockedFile(size=0, sha256=Path(path).name)
    for each in (WHEELS, PACKAGES, COMPILED):
        for place in (folder / each).rglob("[!.]*"):
            if place.is_file():
                expected[place.relative_to(folder).as_posix()] = None
    files: dict[str, BundledFile] = {}
    for path, wanted in sorted(expected.items()):
        place = folder / path
        digest, size = file_hash(place), place.stat().st_size
        if wanted and (wanted.sha256 or wanted.git) not in (digest, _git_hash(place, size)):
            place.unlink()
            raise PlanError(
                f"{place}: found another content than was fetched; it is deleted: run again"
            )
        files[path] = BundledFile(size=size, sha256=digest)
    index = BundleIndex(version=1, lock=lock, images=images, files=files)
    data = index.model_dump(mode="json", exclude_none=True)
    write_file(folder / INDEX, json.dumps(data, indent=1, sort_keys=True) + "\n")
    return index


def _git_hash(path: Path, size: int) -> str:
    """Return the hash by which git names a small file, which no weights have."""
    return sha1(b"blob %d\0" % size + path.read_bytes()).hexdigest() if size < _SMALL else ""
