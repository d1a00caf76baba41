"""The parts of a Spark that can go: releases that nobody goes back to, and what only they used."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparkwright.cleanup.artifacts import Artifacts, Cache, StoredImage
from sparkwright.common.progress import size_text
from sparkwright.weights.weights import CheckpointFolder


@dataclass(frozen=True)
class Cleaning:
    """The parts that are to be removed, and those that are left though no release names them.

    Attributes:
        releases: ids, and the bytes of their own files.
        back: those that stay for a rollback.
        images: and the orders by which they came.
        weights: folders, and the bytes that each frees.
        caches: of images that are gone, or go.
        left: sentences.
    """

    releases: Mapping[str, int] = field(default_factory=dict)
    back: tuple[str, ...] = ()
    images: tuple[tuple[StoredImage, tuple[str, ...]], ...] = ()
    weights: Mapping[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    caches: tuple[Cache, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all that goes; images may share some with others."""
        images = sum(image.size for image, _ in self.images)
        caches = sum(cache.size for cache in self.caches)
        return sum(self.releases.values()) + images + sum(self.weights.values()) + caches

    @property
    def result(self) -> str:
        """The result of the removal, as a sentence."""
        verb = "stays" if len(self.back) == 1 else "stay"
        stays = f"; {' and '.join(self.back)} {verb} for a rollback" if self.back else ""
        if not self.size:
            return f"nothing to free{stays}."
        most = "up to " if self.images else ""
        return f"freed {most}{size_text(self.size)}{stays}."

    def lines(self) -> Iterator[str]:
        """Say what goes, a line each."""
        for release, size in self.releases.items():
            yield f"removes release {release}, {size_text(size)}"
        for image, _ in self.images:
            name = next(iter((*image.tags, *image.digests, image.id)))
            yield f"removes image {name}, {size_text(image.size)} less what others share with it"
        for folder, size in self.weights.items():
            yield f"removes weights {folder}, {size_text(size)}"
        for cache in self.caches:
            yield f"removes compiled code cache/{cache.name}, {size_text(cache.size)}"
        yield from self.left


def superfluous(
    found: Artifacts,
    keep: int,
    wanted: Collection[str] = (),
    folders: Collection[str] = (),
    images: Collection[str] = (),
) -> Cleaning:
    """Return what a Spark may lose.

    Never what serves, boots, is about to, or is asked for; nor what we have not brought.

    Args:
        keep: how many other releases that have served stay, the last ones.
        wanted: the releases that the inventory asks for, one for each replica of the Spark.
        folders, images: their checkpoint folders and the names of their images.
    """
    kept = kept_releases(found, keep, wanted)
    gone = {release: found.sizes.get(release, 0) for release in sorted(found.folders.keys() - kept)}
    back = tuple(sorted((found.folders.keys() & kept) - {found.engines.current}))
    if any(found.folders.get(release, frozenset()) is None for release in kept):
        damaged = [release for release in kept if found.folders.get(release, ()) is None]
        names = " and ".join(sorted(damaged))
        return Cleaning(
            gone, back, left=(f"keeps images and weights: {names} does not say which ones it uses",)
        )
    named = set(folders).union(*(found.folders.get(release) or () for release in kept))
    spare = [name for name in found.weights if name not in named]
    trouble = {name: why for name in spare if (why := _foreign(found, name))}
    unused = tuple(_images(found, kept, images))
    left = [f"leaves weights {name}: {why}" for name, why in trouble.items()]
    return Cleaning(
        releases=gone,
        back=back,
        images=unused,
        weights=_sizes(found.weights, [name for name in spare if name not in trouble]),
        left=(*left, *_orphans(found, gone, [image.id for image, _ in unused])),
        caches=tuple(_caches(found, [image.id for image, _ in unused])),
    )


def _sizes(weights: Mapping[str, CheckpointFolder], going: Sequence[str]) -> dict[str, int]:
    """Return the bytes that each folder frees: not those of files that others are linked to."""
    stays = (folder.files.values() for name, folder in weights.items() if name not in going)
    counted = {stamp.inode for stamps in stays for stamp in stamps}
    sizes: dict[str, int] = {}
    for name in going:
        freed = {
            stamp.inode: stamp.size
            for stamp in weights[name].files.values()
            if stamp.inode not in counted
        }
        counted |= freed.keys()
        sizes[name] = sum(freed.values())
    return sizes


def kept_releases(found: Artifacts, keep: int, wanted: Collection[str]) -> set[str]:
    """Return the releases that stay, whether they are there or not.

    Args: as `superfluous`.
    """
    now = {unit.release for unit in found.engines.units.values() if not unit.stopped}
    now |= {release for release in (found.engines.current, *wanted) if release}
    now |= found.engines.elsewhere | {served[-1] for served in found.seated.values() if served}
    kept = set(now)
    for served in (found.served, *found.seated.values()):
        before = [each for each in dict.fromkeys(reversed(served)) if each not in now]
        kept |= set(before[:keep])
    return kept


def _images(
    found: Artifacts, kept: Collection[str], wanted: Collection[str]
) -> Iterator[tuple[StoredImage, tuple[str, ...]]]:
    ids = {found.images.get(release) for release in kept}
    stays = {image.id for image in found.docker if image.id in ids or image.is_any(wanted)}
    bases = {
        each.base
        for each in found.brought
        if any(image.id in stays and image.is_any(each.names) for image in found.docker)
    }
    ours = {name for each in found.brought for name in (*each.names, each.base) if name}
    for image in found.docker:
        if image.id in stays | found.used or image.is_any(bases) or not image.is_any(ours):
            continue
        # With a name of another make it is somebody else's as well.
        if set(image.tags) <= ours:
            yield image, tuple(each.file for each in found.brought if image.is_any(each.names))


def _caches(found: Artifacts, going: Collection[str]) -> Iterator[Cache]:
    """Yield compiled code of images that Docker does not have, or loses now."""
    stay = {image.id for image in found.docker if image.id not in going}
    for cache in found.caches:
        # Without any image, Docker may just not have answered.
        if found.docker and f"sha256:{cache.name.rpartition('/')[2]}" not in stay:
            yield cache


def _orphans(found: Artifacts, gone: Collection[str], images: Collection[str]) -> Iterator[str]:
    """Say which images of removed releases stay, as nothing shows that we have brought them."""
    ids = {found.images.get(release) for release in gone} - {None, *images}
    stay = {found.images.get(release) for release in found.images.keys() - gone}
    for image in found.docker:
        if image.id in ids - stay - found.used:
            name = next(iter((*image.tags, *image.digests, image.id)))
            yield (
                f"keeps image {name}, {size_text(image.size)}: we did not fetch it. To remove it: "
                f"sudo docker image rm {image.id[:19]}"
            )


def _foreign(found: Artifacts, name: str) -> str | None:
    """Return why a checkpoint folder is not ours alone."""
    folder = found.weights[name]
    ours = folder.record.keys() | found.listed.get(name, frozenset())
    others = [path for path in folder.files if path not in ours and not path.startswith(".")]
    if name in found.aside:
        return "files of somebody else are in its .sparkwright-set-aside"
    return f"{others[0]} in it is not of the checkpoint" if others else None
