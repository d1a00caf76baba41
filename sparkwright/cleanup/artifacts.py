"""The releases, images and weights on a Spark: the script that reads them, and its parser."""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkwright.common.host_output import MARK, read_json, sections
from sparkwright.engine.engine import EngineState, parse_engines, state_script
from sparkwright.weights.weights import CheckpointFolder, parse_folders

# Jobs whose work would be lost, and what they bring is not told by any release yet.
_JOBS = "weights@* image@* image-build@* image-copy.service"


# Prints the orders for an image on one line, without the files of a build, which may be megabytes.
ORDER = """tr -d '\\n' < "$file" | sed 's/, "files": {.*$/}/'"""

_IMAGE = r"{{.Id}}	{{.Size}}	{{json .RepoTags}}	{{json .RepoDigests}}"


@dataclass(frozen=True)
class StoredImage:
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
        """Tell whether one of these is a name of it."""
        return not {self.id, *self.tags, *self.digests}.isdisjoint(names)


@dataclass(frozen=True)
class ImageOrder:
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
class Cache:
    """A folder of compiled code.

    Attributes:
        size: bytes.
        name: of the user's folder, and of the image's below it.
    """

    size: int
    name: str


@dataclass(frozen=True)
class Artifacts:
    """The releases, images and weights on a Spark.

    Attributes:
        engines: its engines.
        served: the releases in the order in which they came to serve.
        seated: those of the Spark's second replica, by its name; the last one is current.
        folders: of each release, those of its checkpoints; None where its file is damaged.
        images: of each release, Docker's id of its image; None without one.
        sizes: bytes of each release's own files.
        docker: all images that Docker holds.
        used: ids of those that a container is made of.
        brought: the orders for images.
        weights: checkpoint folders that have a manifest or a record of ours.
        listed: of each of those, the files that its manifest names.
        aside: those in which other people's files were moved out of the way.
        jobs: units at work that bring weights or images.
        caches: folders of compiled code, each of one user and image, by the digits of its id.
    """

    engines: EngineState
    served: tuple[str, ...]
    folders: Mapping[str, frozenset[str] | None]
    images: Mapping[str, str | None]
    sizes: Mapping[str, int]
    docker: tuple[StoredImage, ...]
    used: frozenset[str]
    brought: tuple[ImageOrder, ...]
    weights: Mapping[str, CheckpointFolder]
    listed: Mapping[str, frozenset[str]]
    aside: frozenset[str]
    jobs: tuple[str, ...]
    caches: tuple[Cache, ...]
    seated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def artifacts_script(root: str) -> str:
    """Return the POSIX shell script that reads what is on a Spark; it reads no weights."""
    return f"""{state_script(root)}
if cd {shlex.quote(root)} 2>/dev/null; then
  echo {MARK}history; cut -d' ' -f2 state/history 2>/dev/null
  echo {MARK}seated
  for seat in seats/*/; do
    for release in $(cut -d' ' -f2 "$seat/state/history"; readlink "$seat/current"); do
      echo "$(basename "$seat") ${{release##*/}}"
    done 2>/dev/null
  done
  echo {MARK}releases
  for folder in releases/*/; do
    [ -d "$folder" ] || continue
    # What stands there before the first folder is made finds the image.
    image=$(
      {{ sed '/^mkdir /,$d' "$folder/run"; echo 'printf %s "$image"'; }} 2>/dev/null |
        sh 2>/dev/null
    )
    release=$(tr -d '\\n' < "$folder/release.json" 2>/dev/null)
    size=$(du -sb "$folder" | cut -f1)
    printf '%s\\t%s\\t%s\\t%s\\n' "$(basename "$folder")" "$size" "$image" "$release"
  done
  echo {MARK}caches
  for folder in cache/*/*/; do
    [ -d "$folder" ] || continue
    folder=${{folder#cache/}}
    printf '%s\t%s\n' "$(du -sb "cache/$folder" | cut -f1)" "${{folder%/}}"
  done
  echo {MARK}brought
  for file in manifests/image@*.json manifests/image-build@*.json manifests/image-copy.json; do
    [ -e "$file" ] && printf '%s\\t%s\\n' "$(basename "$file" .json)" "$({ORDER})"
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


def parse_artifacts(output: Iterable[str]) -> Artifacts:
    """Return what the lines of `artifacts_script` say.

    Raises:
        ValueError, KeyError: something is missing or malformed.
    """
    lines = list(output)
    found = {name: [line for line in part if line] for name, part in sections(lines).items()}
    releases = [line.split("\t", 3) for line in found.get("releases", ())]
    listed = [line.split("\t", 1) for line in found.get("listed", ())]
    brought = [line.split("\t", 1) for line in found.get("brought", ())]
    seated: dict[str, tuple[str, ...]] = {}
    for seat, release in (line.split() for line in found.get("seated", ())):
        seated[seat] = (*seated.get(seat, ()), release)
    return Artifacts(
        seated=seated,
        engines=parse_engines(lines),
        served=tuple(found.get("history", ())),
        folders={name: _checkpoints(text) for name, *_, text in releases},
        images={name: image or None for name, _, image, _ in releases},
        sizes={name: int(size) for name, size, *_ in releases},
        docker=tuple(map(_image, found["images"])),
        used=frozenset(found["used"]),
        brought=tuple(_brought(file, _json(text)) for file, text in brought),
        weights=parse_folders(found.get("weights", ())),
        listed={name: frozenset(_json(text).get("files", ())) for name, text in listed},
        aside=frozenset(found.get("aside", ())),
        jobs=tuple(found["jobs"]),
        caches=tuple(map(_cache, found.get("caches", ()))),
    )


def _checkpoints(text: str) -> frozenset[str] | None:
    try:
        return frozenset(each["folder"] for each in read_json(text)["checkpoints"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _image(line: str) -> StoredImage:
    id, size, tags, digests = line.split("\t")
    return StoredImage(id, int(size), _names(tags), _names(digests))


def _cache(line: str) -> Cache:
    size, name = line.split("\t")
    return Cache(int(size), name)


def _names(text: str) -> tuple[str, ...]:
    return tuple(read_json(text) or ())


def _brought(file: str, told: Mapping[str, Any]) -> ImageOrder:
    named: Sequence[str] = told.get("images") or [told["image"]] if told else []
    return ImageOrder(file, tuple(named), str(told.get("base", "")))


def _json(text: str) -> dict[str, Any]:
    """Return what a file of ours says; nothing of one that is damaged."""
    try:
        found = read_json(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
