"""What a Spark may lose: releases that nobody goes back to, and what only they used."""

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploys.plan.engine import EngineState, parse_engines, state_script
from deploys.plan.progress import size_text
from deploys.plan.sections import MARK, sections
from deploys.plan.weights import Folder, parse_folders

# Jobs whose work would be lost, and what they bring is not told by any release yet.
_JOBS = "weights@* image@* image-build@* image-copy.service image-export@*"


@dataclass(frozen=True)
class Image:
    """An image that Docker holds.

    Attributes:
        size: bytes, those that it shares with other images included.
        tags: its names.
        digests: what it was pulled by.
    """

    id: str
    size: int
    tags: tuple[str, ...]
    digests: tuple[str, ...]

    def is_any(self, names: Collection[str]) -> bool:
        """Whether one of these is a name of it."""
        return not {self.id, *self.tags, *self.digests}.isdisjoint(names)


@dataclass(frozen=True)
class Brought:
    """Orders by which we had an image brought: a file in ROOT/manifests.

    Attributes:
        file: its name without the suffix, which is the job's.
        names: by which Docker may know the image.
        base: what it is built on; "" where it is not built.
    """

    file: str
    names: tuple[str, ...]
    base: str = ""


@dataclass(frozen=True)
class Belongings:
    """What is on a Spark.

    Attributes:
        engines: its engines.
        served: the releases in the order in which they came to serve.
        folders: of each release, those of its checkpoints; None where its file is damaged.
        images: of each release, Docker's id of its image; None without one.
        docker: all images that Docker holds.
        used: ids of those that a container is made of.
        brought: the orders for images.
        weights: checkpoint folders that have a manifest or a record of ours.
        listed: of each of those, the files that its manifest names.
        aside: those in which other people's files were moved out of the way.
        jobs: units at work that bring weights or images.
    """

    engines: EngineState
    served: tuple[str, ...]
    folders: Mapping[str, frozenset[str] | None]
    images: Mapping[str, str | None]
    docker: tuple[Image, ...]
    used: frozenset[str]
    brought: tuple[Brought, ...]
    weights: Mapping[str, Folder]
    listed: Mapping[str, frozenset[str]]
    aside: frozenset[str]
    jobs: tuple[str, ...]


@dataclass(frozen=True)
class Cleaning:
    """What is to be removed, and what is left though no release names it.

    Attributes:
        releases: ids.
        images: and the orders by which they came.
        weights: folders, and their bytes.
        left: sentences.
    """

    releases: tuple[str, ...] = ()
    images: tuple[tuple[Image, tuple[str, ...]], ...] = ()
    weights: Mapping[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Say what goes, a line each."""
        for release in self.releases:
            yield f"removes release {release}"
        for image, _ in self.images:
            name = next(iter((*image.tags, *image.digests, image.id)))
            yield f"removes image {name}, {size_text(image.size)} less what others share with it"
        for folder, size in self.weights.items():
            yield f"removes weights {folder}, {size_text(size)}"
        yield from self.left


def belongings_script(root: str) -> str:
    """Return the POSIX shell script that reads what is on a Spark; it reads no weights.

    Args:
        root: the folder of everything on the Spark.
    """
    return f"""{state_script(root)}
if cd {shlex.quote(root)} 2>/dev/null; then
  echo {MARK}history; cut -d' ' -f2 state/history 2>/dev/null
  echo {MARK}releases
  for folder in releases/*/; do
    [ -d "$folder" ] || continue
    # What stands before the engine's own line of `run` finds the image.
    image=$(
      {{ sed '/^exec /,$d' "$folder/run"; echo 'printf %s "$image"'; }} 2>/dev/null | sh 2>/dev/null
    )
    release=$(tr -d '\\n' < "$folder/release.json" 2>/dev/null)
    printf '%s\\t%s\\t%s\\n' "$(basename "$folder")" "$image" "$release"
  done
  echo {MARK}brought
  for file in manifests/image@*.json manifests/image-build@*.json manifests/image-copy.json; do
    [ -e "$file" ] && printf '%s\\t%s\\n' "$(basename "$file" .json)" "$(tr -d '\\n' < "$file")"
  done
  echo {MARK}weights
  for folder in */; do
    folder=${{folder%/}}
    [ -e "manifests/$folder.json" ] || [ -e "$folder/.sparkwright.json" ] || continue
    printf 'folder\\t%s\\n' "$folder"
    [ -e "$folder/.sparkwright.json" ] &&
      printf 'record\\t%s\\n' "$(tr -d '\\n' < "$folder/.sparkwright.json")"
    find "$folder/" \\( -path '*/.cache' -o -path '*/.sparkwright*' \\) -prune -o \\
      -type f -printf 'file\\t%s\\t%T@\\t%i\\t%P\\n'
  done
  echo {MARK}listed
  for folder in */; do
    listed=manifests/${{folder%/}}.json
    [ -e "$listed" ] && printf '%s\\t%s\\n' "${{folder%/}}" "$(tr -d '\\n' < "$listed")"
  done
  echo {MARK}aside
  for folder in */.sparkwright-set-aside; do
    [ -z "$(find "$folder" -type f 2>/dev/null | head -n 1)" ] || dirname "$folder"
  done
fi
echo {MARK}images
images=$(docker image ls --no-trunc --quiet 2>/dev/null | sort -u)
[ -z "$images" ] || docker image inspect --format '{_IMAGE}' $images
echo {MARK}used
containers=$(docker ps --all --quiet 2>/dev/null)
[ -z "$containers" ] || docker inspect --format '{{{{.Image}}}}' $containers
echo {MARK}jobs
systemctl list-units --plain --no-legend --state=active,activating {_JOBS} | cut -d' ' -f1
true"""


_IMAGE = r"{{.Id}}	{{.Size}}	{{json .RepoTags}}	{{json .RepoDigests}}"


def parse_belongings(output: Iterable[str]) -> Belongings:
    """Return what the lines of `belongings_script` say.

    Raises:
        ValueError, KeyError: something is missing or of another make.
    """
    lines = list(output)
    found = {name: [line for line in part if line] for name, part in sections(lines).items()}
    releases = [line.split("\t", 2) for line in found.get("releases", ())]
    listed = [line.split("\t", 1) for line in found.get("listed", ())]
    brought = [line.split("\t", 1) for line in found.get("brought", ())]
    return Belongings(
        engines=parse_engines(lines),
        served=tuple(found.get("history", ())),
        folders={name: _checkpoints(text) for name, _, text in releases},
        images={name: image or None for name, image, _ in releases},
        docker=tuple(map(_image, found["images"])),
        used=frozenset(found["used"]),
        brought=tuple(_brought(file, _json(text)) for file, text in brought),
        weights=parse_folders(found.get("weights", ())),
        listed={name: frozenset(_json(text).get("files", ())) for name, text in listed},
        aside=frozenset(found.get("aside", ())),
        jobs=tuple(found["jobs"]),
    )


def superfluous(
    found: Belongings,
    keep: int,
    wanted: str | None = None,
    folders: Collection[str] = (),
    images: Collection[str] = (),
) -> Cleaning:
    """Return what a Spark may lose.

    Never what serves, boots, is about to, or is asked for; nor what we have not brought.

    Args:
        found: what is on the Spark.
        keep: how many other releases that have served stay, the last ones.
        wanted: the release that the inventory asks for; None on an idle Spark.
        folders, images: its checkpoint folders and the names of its image.
    """
    kept = kept_releases(found, keep, wanted)
    gone = tuple(sorted(found.folders.keys() - kept))
    if any(found.folders.get(release, frozenset()) is None for release in kept):
        damaged = [release for release in kept if found.folders.get(release, ()) is None]
        names = " and ".join(sorted(damaged))
        return Cleaning(gone, left=(f"leaves images and weights: {names} does not say its own",))
    named = set(folders).union(*(found.folders.get(release) or () for release in kept))
    spare = [name for name in found.weights if name not in named]
    trouble = {name: why for name in spare if (why := _foreign(found, name))}
    unused = tuple(_images(found, kept, images))
    left = [f"leaves weights {name}: {why}" for name, why in trouble.items()]
    return Cleaning(
        releases=gone,
        images=unused,
        weights={
            name: sum(stamp.size for stamp in found.weights[name].files.values())
            for name in spare
            if name not in trouble
        },
        left=(*left, *_orphans(found, gone, [image.id for image, _ in unused])),
    )


def kept_releases(found: Belongings, keep: int, wanted: str | None) -> set[str]:
    """Return the releases that stay, whether they are there or not.

    Args: as `superfluous`.
    """
    now = {unit.release for unit in found.engines.units.values() if not unit.stopped}
    now |= {release for release in (found.engines.current, wanted) if release}
    before = [each for each in dict.fromkeys(reversed(found.served)) if each not in now]
    return now | set(before[:keep])


def _images(
    found: Belongings, kept: Collection[str], wanted: Collection[str]
) -> Iterator[tuple[Image, tuple[str, ...]]]:
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


def _orphans(found: Belongings, gone: Collection[str], images: Collection[str]) -> Iterator[str]:
    """Say which images of removed releases stay, as nothing shows that we have brought them."""
    ids = {found.images[release] for release in gone} - {None, *images}
    stay = {found.images.get(release) for release in found.images.keys() - gone}
    for image in found.docker:
        if image.id in ids - stay - found.used:
            name = next(iter((*image.tags, *image.digests, image.id)))
            yield (
                f"leaves image {name}, {size_text(image.size)}: no order of ours names it. "
                f"To remove it: sudo docker image rm {image.id[:19]}"
            )


def _foreign(found: Belongings, name: str) -> str | None:
    """Return why a checkpoint folder is not ours alone."""
    folder = found.weights[name]
    ours = folder.record.keys() | found.listed.get(name, frozenset())
    others = [path for path in folder.files if path not in ours and not path.startswith(".")]
    if name in found.aside:
        return "files of somebody else are in its .sparkwright-set-aside"
    return f"{others[0]} in it is not of the checkpoint" if others else None


def _checkpoints(text: str) -> frozenset[str] | None:
    try:
        return frozenset(each["folder"] for each in json.loads(text)["checkpoints"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _image(line: str) -> Image:
    id, size, tags, digests = line.split("\t")
    return Image(id, int(size), _names(tags), _names(digests))


def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text) or ())


def _brought(file: str, told: Mapping[str, Any]) -> Brought:
    named: Sequence[str] = told.get("images") or [told["image"]] if told else []
    return Brought(file, tuple(named), str(told.get("base", "")))


def _json(text: str) -> dict[str, Any]:
    """Return what a file of ours says; nothing of one that is damaged."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
