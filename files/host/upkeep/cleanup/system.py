"""What both programs read of a Spark: files, commands, Docker, and the orders of our jobs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Marks the containers of engines.
LABEL = "sparkwright.release"
# Where fetching puts files that somebody else had put into a checkpoint's folder.
SET_ASIDE = ".sparkwright-set-aside"
_ENVIRONMENT = os.environ | {"LC_ALL": "C"}


def text_of(path: Path) -> str:
    """Return the text of a file; "" without one."""
    # The user who fetches weights could put a pipe into their folder.
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def json_of(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of ours; an empty one where it is damaged or absent."""
    try:
        found = json.loads(text_of(path))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def said(*command: str) -> str:
    """Return the output of a command; "" of one that fails, or is absent."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=_ENVIRONMENT)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def do(*command: str) -> None:
    """Run a command, which must succeed."""
    subprocess.run(command, check=True, env=_ENVIRONMENT)


def sizes(*paths: Path) -> list[int]:
    """Return the bytes of files or folders, which may be links to another disk.

    Of files that are linked to one another, the first alone counts.
    """
    lines = said("du", "-sbD", *map(str, paths)).splitlines() if paths else []
    return [int(line.split()[0]) for line in lines]


def size(path: Path) -> int:
    """Return the bytes of a file or folder; 0 where there is none."""
    return sum(sizes(path))


def sized(name: object, count: float) -> str:
    """Return a name with its bytes: "/r (22.0 GB)"."""
    return f"{name} ({size_text(count)})"


def size_text(size: float) -> str:
    """Return bytes as "22.0 GB": powers of 1000, as disks and the hub count."""
    units = ["kB", "MB", "GB", "TB"]
    while (size := size / 1000) >= 999.95 and len(units) > 1:
        del units[0]
    return f"{size:.{int(units[0] != 'kB')}f} {units[0]}"


def carry_out(delete: Callable[[Any], None]) -> None:
    """Delete by the command line's JSON; say what has failed as one line."""
    try:
        delete(json.loads(sys.argv[1]))
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")


def has_others(folder: Path) -> bool:
    """Tell whether files of other people were set aside in a checkpoint's folder."""
    aside = folder / SET_ASIDE
    return aside.is_dir() and any(aside.iterdir())


def containers() -> list[dict[str, Any]]:
    """Return all containers, as `docker inspect` prints them."""
    return _inspected(["docker", "inspect"], said("docker", "ps", "--all", "--quiet"))


def images() -> list["HeldImage"]:
    """Return the images that Docker holds."""
    found = []
    ids = said("docker", "image", "ls", "--quiet", "--no-trunc")
    for each in _inspected(["docker", "image", "inspect"], ids):
        names = (*(each["RepoTags"] or ()), *(each["RepoDigests"] or ()))
        found.append(HeldImage(each["Id"], each["Size"], names))
    return found


def _inspected(command: list[str], ids: str) -> list[dict[str, Any]]:
    known = sorted(set(ids.split()))
    found: list[dict[str, Any]] = json.loads((known and said(*command, *known)) or "[]")
    return found


@dataclass(frozen=True)
class HeldImage:
    """An image that Docker holds; its bytes include layers that it shares with others."""

    id: str
    size: int
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """A name for people."""
        return (*self.names, self.id)[0]

    @property
    def tags(self) -> set[str]:
        """The names by which Docker gives it up."""
        return {name for name in self.names if "@" not in name}

    def is_any(self, names: set[str]) -> bool:
        """Tell whether one of these is a name of it."""
        return not names.isdisjoint({self.id, *self.names})


@dataclass(frozen=True)
class Order:
    """An order by which a job brought an image, or offers one; `base` of one that it builds."""

    job: str
    names: set[str]
    base: str


def image_orders(root: Path) -> list[Order]:
    """Return all orders for images."""
    found = {path.stem: json_of(path) for path in sorted(root.glob("manifests/image*.json"))}
    return [
        Order(job, {*(order.get("images") or [order.get("image")])} - {None}, order.get("base", ""))
        for job, order in found.items()
    ]


def without_ours(text: str, previous: str, ours: dict[str, dict[str, Any]]) -> str | None:
    """Return daemon.json without our keys; `previous` where nothing else has changed since.

    None where it has no key of ours, or is invalid: Docker does not start with such a file, so its
    owner is at work on it.

    Args:
        previous: the file before our first change; "" where there was none.
        ours: the values that we set, by section and key; None stands for any value. A key with
            another value by now is the owner's.
    """
    keys = []
    try:
        found, before = (json.loads(each or "{}") for each in (text, previous))
        for section, values in ours.items():
            now, then = found.get(section, {}), before.get(section, {})
            own = (key for key in values if key in now and key not in then)
            keys += [(section, key) for key in own if values[key] in (None, now[key])]
        for section, key in keys:
            del found[section][key]
            if not found[section] and section not in before:
                del found[section]
    except (ValueError, AttributeError, TypeError):
        return None
    if not keys:
        return None
    return previous if found == before else json.dumps(found, indent=4) + "\n"
