"""Fills a bundle: a folder with all that the replicas of an inventory need of the internet.

Weights, images, wheels and packages are each verified; FOLDER/bundle.json records their digests.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sparkwright.bundle.images import Part, download, image_parts, registry_client
from sparkwright.bundle.packages import download_packages, ubuntu_sources
from sparkwright.bundle.wheels import download_wheels
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import HARDWARE
from sparkwright.common.local_file import write_file
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import PACKAGES as INSTALLED
from sparkwright.common.progress import JobProgress, ProgressLines, parse_progress, size_text
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.recipe.loader import load_recipe, recipe_names
from sparkwright.recipe.recipe import Recipe
from sparkwright.release.bundle import (
    IMAGES,
    INDEX,
    PACKAGES,
    WEIGHTS,
    WHEELS,
    BundledFile,
    BundledImage,
    BundleIndex,
    blob,
    checkpoint_folder,
    file_hash,
    unbundled,
)
from sparkwright.release.ensure import record_lock, resolve
from sparkwright.release.lock import (
    CheckpointLock,
    ImageLock,
    Lock,
    checkpoint_key,
    image_key,
    lock_path,
    read_lock,
)
from sparkwright.release.release import repository
from sparkwright.release.resolve import RegistryImage, registry_architecture
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
    checkpoints = {checkpoint_folder(each): each for each in lock.checkpoints.values()}
    with _alone(folder) as held:
        _check_space(folder, checkpoints.values(), lock.images.values())
        _fetch_weights(folder, list(checkpoints.values()), hub, held)
        index = _fetch_rest(folder, fleet, recipes, lock, checkpoints, apt)
    return _conclusion(folder, index, inventory)


@contextmanager
def _alone(folder: Path) -> Iterator[int]:
    """Give the descriptor of a lock on a folder: whoever has it, or has inherited it, fills it.

    Raises:
        PlanError: Somebody else does, or the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield lock.fileno()
    except BlockingIOError:
        raise PlanError(
            f"{folder}: found another run that fills it; expected none: wait for its end"
        ) from None
    except OSError as error:
        raise PlanError(
            f"{folder}: cannot be filled ({error}); expected a folder with room, which "
            "this user can write to"
        ) from None


def _fetch_rest(
    folder: Path,
    fleet: Fleet,
    recipes: Sequence[Recipe],
    lock: Lock,
    checkpoints: dict[str, CheckpointLock],
    apt: Sequence[str],
) -> BundleIndex:
    """Fetch all but the weights, and write the index."""
    images = _fetch_images(folder, recipes, lock)
    architectures = _architectures(fleet)
    _say("wheels: for Python 3.12 and 3.13, on " + " and ".join(sorted(architectures)))
    for subject in ("weights", *(["gateway"] if fleet.gateway else [])):
        requirements = HOST_FILES / subject / "requirements.txt"
        download_wheels(requirements, architectures, folder / WHEELS)
    for name in map(registry_architecture, sorted(architectures)):
        sources = list(apt) or ubuntu_sources(name)
        download_packages(INSTALLED, name, sources, folder / PACKAGES / name, _say)
    return _index(folder, lock, images, checkpoints)


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


def _check_space(
    folder: Path, checkpoints: Iterable[CheckpointLock], images: Iterable[ImageLock]
) -> None:
    """Say how much there is to fetch; refuse a disk that is too small."""
    weights = sum(each.size for each in checkpoints)
    layers = sum(each.size for each in images)
    there = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    free = shutil.disk_usage(folder).free
    missing = max(0, weights + layers + _REST - there)
    _say(
        f"{folder}: {size_text(weights)} of weights, {size_text(layers)} of images, up to "
        f"{size_text(_REST)} of wheels and packages; {size_text(there)} are there, "
        f"{size_text(free)} free"
    )
    if missing + _RESERVE > free:
        raise PlanError(
            f"{folder}: found {size_text(free)} free; expected {size_text(missing + _RESERVE)}"
        )


def _fetch_weights(
    folder: Path, checkpoints: Sequence[CheckpointLock], hub: Hub, held: int
) -> None:
    """Fetch checkpoints by the program that fetches them on a Spark.

    Args:
        held: Of the lock, which the program keeps should this one be killed.
    """
    root = folder / WEIGHTS
    orders = root / "manifests"
    orders.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(HOST_FILES.parent)}
    environment |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    if hub.token() is None:
        environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"
    for locked in checkpoints:
        name = checkpoint_folder(locked).removeprefix(f"{WEIGHTS}/")
        (root / name).mkdir(exist_ok=True)
        data = locked.model_dump(include={"repo", "commit", "files"}, exclude_none=True)
        endpoint = hub.endpoint or _default_endpoint()
        write_file(orders / f"{name}.json", json.dumps({"endpoint": endpoint, **data}))
        report = root / name / ".sparkwright-progress.json"
        report.unlink(missing_ok=True)
        code = "from host.weights.fetch import command; command()"
        with subprocess.Popen(
            [sys.executable, "-B", "-c", code, str(root), name],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[held],
        ) as process:
            _follow(process, report, f"weights of {locked.repo}")
        said = _said(report)
        if process.returncode or said is None or said.phase != "done":
            why = said.message if said else f"it ended with status {process.returncode}"
            raise PlanError(f"{locked.repo}@{locked.commit[:12]}: {why}")
        report.unlink()
    shutil.rmtree(orders)


def _default_endpoint() -> str:
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def _follow(process: subprocess.Popen[bytes], report: Path, what: str) -> None:
    lines = _lines(what)
    while process.poll() is None:
        if progress := _said(report):
            lines.show(progress)
        time.sleep(0.2)


def _said(report: Path) -> JobProgress | None:
    try:
        return parse_progress(report.read_text("utf-8"))
    except (OSError, ValueError, KeyError):
        return None


def _lines(what: str) -> ProgressLines:
    return ProgressLines(lambda line: _say(f"{what}: {line}"))


def _fetch_images(folder: Path, recipes: Iterable[Recipe], lock: Lock) -> dict[str, BundledImage]:
    found: dict[str, BundledImage] = {}
    place = folder / IMAGES
    for recipe in recipes:
        key, locked = image_key(recipe), lock.images[image_key(recipe)]
        if key in found:
            continue
        arch = HARDWARE[recipe.hardware[0]].arch or platform.machine()
        reference = f"{repository(recipe.base_image)}@{locked.digest}"
        known = _known_image(folder, key, locked)
        if known:
            found[key] = known
            continue
        with registry_client() as client:
            image, manifests, parts = image_parts(reference, locked, arch, client)
            for digest, content in manifests.items():
                path = place / blob(digest)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            _download_parts(RegistryImage(reference, client), parts, place)
        found[key] = image
    return found


def _known_image(folder: Path, key: str, locked: ImageLock) -> BundledImage | None:
    """Return an image of the lock that an earlier run has brought whole."""
    try:
        index = BundleIndex.model_validate_json((folder / INDEX).read_bytes())
    except (OSError, ValueError):
        return None
    image = index.images.get(key)
    if image is None or (image.top, image.config) != (locked.digest, locked.config):
        return None
    paths = [f"{IMAGES}/{path}" for path in image.blobs]
    sizes = {path: index.files[path].size for path in paths if path in index.files}
    there = all(
        (folder / path).is_file() and (folder / path).stat().st_size == sizes.get(path)
        for path in paths
    )
    return image if there else None


def _download_parts(image: RegistryImage, parts: Sequence[Part], folder: Path) -> None:
    lines, total, done = _lines(f"image {image.reference}"), sum(each.size for each in parts), 0

    def seen(count: int) -> None:
        nonlocal done
        done += count
        lines.show(JobProgress("downloading", done, total, ""))

    for part in parts:
        download(image, part, folder, seen)


def _index(
    folder: Path,
    lock: Lock,
    images: dict[str, BundledImage],
    checkpoints: dict[str, CheckpointLock],
) -> BundleIndex:
    """Hash what the bundle consists of, write its index, and return that.

    Raises:
        PlanError: The content of a part of an image is not what its name says.
    """
    _say(f"{folder}: computing the digest of each file")
    files: dict[str, BundledFile] = {}
    expected = {
        f"{name}/{path}": file.sha256
        for name, locked in checkpoints.items()
        for path, file in locked.files.items()
    }
    expected |= {f"{IMAGES}/{path}": Path(path).name for i in images.values() for path in i.blobs}
    for path in sorted(_content(folder, images, checkpoints)):
        place = folder / path
        digest = file_hash(place)
        if digest != (expected.get(path) or digest):
            place.unlink()
            raise PlanError(
                f"{place}: found another content than was fetched; it is deleted: run again"
            )
        files[path] = BundledFile(size=place.stat().st_size, sha256=digest)
    index = BundleIndex(version=1, lock=lock, images=images, files=files)
    data = index.model_dump(mode="json", exclude_none=True)
    write_file(folder / INDEX, json.dumps(data, indent=1, sort_keys=True) + "\n")
    return index


def _content(
    folder: Path, images: dict[str, BundledImage], checkpoints: dict[str, CheckpointLock]
) -> Iterator[str]:
    for name, locked in checkpoints.items():
        yield from (f"{name}/{path}" for path in locked.files)
    for path in {path for image in images.values() for path in image.blobs}:
        yield f"{IMAGES}/{path}"
    for each in (WHEELS, PACKAGES):
        for place in (folder / each).rglob("[!.]*"):
            if place.is_file():
                yield place.relative_to(folder).as_posix()


def _conclusion(folder: Path, index: BundleIndex, inventory: Path) -> str:
    size = sum(file.size for file in index.files.values())
    return (
        f"{folder}: complete, {len(index.files)} files, {size_text(size)}. Next: copy the folder "
        f"to the machine that runs Sparkwright at the site, and write into {inventory} there, with "
        f"the path where it is then:\n\nsource:\n  bundle: {folder.absolute()}\n  sha256: "
        f"{file_hash(folder / INDEX)}\n\nTake the last line there by another way than the disk: it "
        f"vouches for all that is on it. Then: {next_line('apply')}"
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
