"""clean: delete releases that nobody goes back to, and what only they used.

It is given the root folder, how many releases that have served stay for a rollback (`keep`), and
the releases, checkpoint folders and names of images that the inventory asks for.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host.upkeep.cleanup import system
from host.upkeep.cleanup.system import (
    HeldImage,
    Order,
    do,
    json_of,
    said,
    size,
    size_text,
    sized,
    sizes,
    text_of,
)

_LISTED = ("--plain", "--no-legend", "--state=active,activating,deactivating,reloading")
# Jobs whose work would be lost: no release tells yet what they bring.
_JOBS = ("switch@*", "weights@*", "image@*", "image-*")


@dataclass(frozen=True)
class Found:
    """The releases, images and weights on a Spark.

    Attributes:
        now: the releases that run, boot, or are current for one of its replicas.
        served: for each replica, the releases in the order in which they came to serve.
        folders: the checkpoint folders of each release; None where its file is damaged.
        images: of each release, Docker's id of its image; "" without one.
        docker: all images that Docker holds.
        used: ids of the images that a container is made of.
        weights: checkpoint folders that have a manifest or a record of ours, each with the reason
            why it is not ours alone, or "".
        caches: folders of compiled code, each of one user and image, by the digits of its id.
    """

    now: set[str]
    served: list[list[str]]
    folders: dict[str, set[str] | None]
    images: dict[str, str]
    docker: list[HeldImage]
    used: set[str]
    orders: list[Order]
    weights: dict[str, str]
    caches: list[str]


@dataclass(frozen=True)
class Cleaning:
    """The parts that go, the releases that stay for a rollback, and why something else stays."""

    releases: list[str]
    back: list[str]
    images: list[HeldImage] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    caches: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def read(root: Path) -> Found:
    """Read a Spark, but for the content of its weights."""
    seats = [root, *sorted(root.glob("seats/*"))]
    enabled = Path("/etc/systemd/system/multi-user.target.wants").glob("vllm@*")
    listed = said("systemctl", "list-units", *_LISTED, "vllm@*")
    # An engine that waits for Docker is inactive, and has a job.
    waiting = said("systemctl", "list-jobs", "--plain", "--no-legend", "vllm@*")
    units = [*(path.name for path in enabled), *f"{listed} {waiting}".split()]
    releases = [path for path in sorted(root.glob("releases/*")) if path.is_dir()]
    return Found(
        now={unit[5:].removesuffix(".service") for unit in units if unit.startswith("vllm@")}
        | {link.readlink().name for seat in seats if (link := seat / "current").is_symlink()},
        served=[_history(seat) for seat in seats],
        folders={path.name: _checkpoints(path) for path in releases},
        images={path.name: _image_of(path) for path in releases},
        docker=system.images(),
        used={each["Image"] for each in system.containers()},
        orders=system.image_orders(root),
        weights={
            path.name: _foreign(root, path)
            for path in sorted(root.glob("*/"))
            if any(record.exists() for record in _records(root, path.name))
        },
        caches=[f"{path.parent.name}/{path.name}" for path in sorted(root.glob("cache/*/*/"))],
    )


def superfluous(found: Found, wanted: dict[str, Any]) -> Cleaning:
    """Return what a Spark may lose: what we brought, and nobody serves, boots or asks for."""
    now = found.now | {*wanted["releases"]}
    kept = set(now)
    for served in found.served:
        before = [each for each in dict.fromkeys(reversed(served)) if each not in now]
        kept |= {*before[: wanted["keep"]]}
    gone = [release for release in found.folders if release not in kept]
    back = [release for release in found.folders if release in kept - found.now]
    if damaged := [name for name in found.folders if name in kept and found.folders[name] is None]:
        names = " and ".join(damaged)
        left = [f"keeps images and weights: {names} does not say which ones it uses"]
        return Cleaning(gone, back, left=left)
    named = {*wanted["folders"]}.union(*(found.folders.get(release) or () for release in kept))
    spare = {name: foreign for name, foreign in found.weights.items() if name not in named}
    unused = [*_images(found, kept, {*wanted["images"]})]
    # Without any image, Docker may just not have answered.
    stay = {image.id for image in found.docker if image not in unused} or None
    return Cleaning(
        releases=gone,
        back=back,
        images=unused,
        weights=[name for name, foreign in spare.items() if not foreign],
        caches=[each for each in found.caches if stay and f"sha256:{Path(each).name}" not in stay],
        left=[f"leaves weights {name}: {foreign}" for name, foreign in spare.items() if foreign],
    )


def _images(found: Found, kept: set[str], wanted: set[str]) -> Iterator[HeldImage]:
    ids = {found.images.get(release) for release in kept}
    stays = [image for image in found.docker if image.id in ids or image.is_any(wanted)]
    bases = {each.base for each in found.orders if any(image.is_any(each.names) for image in stays)}
    ours = {name for each in found.orders for name in (*each.names, each.base) if name}
    for image in found.docker:
        if image in stays or image.id in found.used or image.is_any(bases):
            continue
        # With a name of another make it is somebody else's as well.
        if image.is_any(ours) and image.tags <= ours:
            yield image


def _history(seat: Path) -> list[str]:
    return [line.split()[1] for line in text_of(seat / "state/history").splitlines() if " " in line]


def _checkpoints(release: Path) -> set[str] | None:
    try:
        checkpoints = json_of(release / "release.json")["checkpoints"]
        return {each["folder"] for each in checkpoints.values()}
    except (KeyError, TypeError, AttributeError):
        return None


def _image_of(release: Path) -> str:
    # What stands in its script before the first folder is made finds the image.
    script = text_of(release / "run").partition("\nmkdir ")[0]
    return said("sh", "-c", f'{script}\nprintf %s "$image"') if script else ""


def _records(root: Path, name: str) -> tuple[Path, Path]:
    """Return the record of fetching a checkpoint, and the order for it."""
    return root / name / ".sparkwright.json", root / f"manifests/{name}.json"


def _foreign(root: Path, folder: Path) -> str:
    """Return why a checkpoint folder is not ours alone; "" where it is."""
    if system.has_others(folder):
        return "files of somebody else are in its .sparkwright-set-aside"
    records = map(json_of, _records(root, folder.name))
    ours = {path for record in records for path in record.get("files", ())}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.is_symlink() and name not in ours and name[0] != ".":
            return f"{name} in it is not of the checkpoint"
    return ""


def look(wanted: dict[str, Any]) -> dict[str, object]:
    """Return what goes with its bytes, what stays, and the result, as lines for people."""
    root = Path(wanted["root"])
    found = read(root)
    gone = superfluous(found, wanted)
    listed = said("systemctl", "list-units", *_LISTED, *_JOBS)
    jobs = [line.split()[0] for line in listed.splitlines() if line.strip()]
    goes = [
        *((f"release {name}", sum(sizes(*_of_release(root, name)))) for name in gone.releases),
        *((f"image {image.name}, less what others share,", image.size) for image in gone.images),
        *((f"weights {name}", count) for name, count in _freed(root, found, gone.weights)),
        *((f"compiled code cache/{name}", size(root / "cache" / name)) for name in gone.caches),
    ]
    most = "up to " if gone.images else ""
    freed = f"freed {most}{size_text(sum(count for _, count in goes))}"
    verb = "stays" if len(gone.back) == 1 else "stay"
    back = f"; {' and '.join(gone.back)} {verb} for a rollback" if gone.back else ""
    return {
        "refusal": f"at work: {', '.join(jobs)}; wait until it ends, and run again" * bool(jobs),
        "goes": [f"removes {sized(*each)}" for each in goes],
        "stays": gone.left,
        "result": f"{freed if goes else 'nothing to free'}{back}.",
    }


def _of_release(root: Path, release: str) -> list[Path]:
    return [root / "releases" / release, root / f"cache/compiled/{release}.tar"]


def _freed(root: Path, found: Found, going: list[str]) -> list[tuple[str, int]]:
    """Return the bytes that each folder frees; a file that stays under another name frees none."""
    names = [*(name for name in found.weights if name not in going), *going]
    counts = sizes(*(root / name for name in names))
    return [*zip(going, counts[len(names) - len(going) :], strict=True)]


def delete(wanted: dict[str, Any]) -> None:
    """Delete it, with the orders by which it came."""
    root = Path(wanted["root"])
    found = read(root)
    gone = superfluous(found, wanted)
    jobs = [f"switch@{release}" for release in gone.releases]
    for release in gone.releases:
        said("systemctl", "reset-failed", f"vllm@{release}.service")
        do("rm", "-rf", *map(str, _of_release(root, release)))
    for image in gone.images:
        do("docker", "image", "rm", *(sorted(image.tags) or [image.id]))
        jobs += [order.job for order in found.orders if image.is_any(order.names)]
    for name in gone.weights:
        # It may be a link to another disk.
        do("find", "-H", str(root / name), "-mindepth", "1", "-delete")
        do("rm", "-d", str(root / name))
        jobs += [name, f"weights@{name}"]
    for job in jobs:
        for kind in ("manifests", "jobs"):
            (root / kind / f"{job}.json").unlink(missing_ok=True)
    for name in gone.caches:
        shutil.rmtree(root / "cache" / name)


def command() -> None:
    """Delete what the command line's JSON says."""
    system.carry_out(delete)
