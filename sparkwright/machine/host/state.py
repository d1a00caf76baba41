"""What Sparkwright has placed on a host, as it is there: files, units, kernel parameters, users."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from sparkwright.common import placed
from sparkwright.common.files import FileState
from sparkwright.common.part import Ask, Bounded, Part
from sparkwright.common.placed import SYSTEMD, USERS, unit_names

# Units of others that our operations enable, restart or look at.
_OTHERS = (
    *("docker.service", placed.GUARD, "haproxy.service", "prometheus-node-exporter.service"),
    *placed.ROOM,
)
# What of the root folder is not looked at: much of it, or the whole releases of others.
_LARGE = ("benchmarks", "bundle", "cache", "hf", "releases")


class KnownUnit(Bounded):
    """A unit as systemd knows it, by systemd's words.

    Attributes:
        file: "enabled", "static" or another word about its file.
        path: Of its file; "" where it has none.
        outdated: systemd has read another version of its file.
        started: When it became active, in seconds since the epoch; 0 if never.
        wanted: A link has it start with another unit.
    """

    load: str
    active: str
    file: str
    path: str
    outdated: bool
    status: str
    started: int
    wanted: bool

    @property
    def unread(self) -> bool:
        """Tell whether systemd has not read its present file."""
        return self.outdated or not self.path


@dataclass(frozen=True)
class UnitState:
    """A unit; an outdated one has a file that changed after its start, to the second."""

    active: bool
    enabled: bool
    outdated: bool
    known: bool = True


class Placed(Part):
    """Files, units, kernel parameters and users of a host; what is absent is missing here."""

    part: ClassVar = "placed"

    files: dict[str, FileState]
    units: dict[str, KnownUnit]
    parameters: dict[str, str]
    users: list[str]

    def unit(self, name: str, files: Iterable[FileState] = ()) -> UnitState:
        """Return the state of a unit, as `unit_state`."""
        return unit_state(self.units.get(name), files)


class Watchdog(Part):
    """The machine's watchdog.

    Attributes:
        offered: the firmware has Arm's, and there is a module for it.
        set_by: what sets its time beside us; "" for nothing.
        seconds: its time, as systemd knows it; 0 for none, None if unknown.
    """

    part: ClassVar = "machine.watchdog"

    device: bool
    offered: bool
    set_by: str
    seconds: int | None


ASK_WATCHDOG = Watchdog.ask(ours=placed.WATCHDOG)


def unit_state(found: KnownUnit | None, files: Iterable[FileState]) -> UnitState:
    """Return the state of a unit in relation to the files that configure it."""
    changed = max((file.changed for file in files), default=0)
    if found is None:
        return UnitState(active=False, enabled=False, outdated=changed > 0, known=False)
    return UnitState(
        active=found.active == "active",
        # Another unit wants a static one.
        enabled=found.wanted or found.file in ("static", "alias", "indirect"),
        outdated=changed > found.started,
        known=found.load == "loaded",
    )


@cache
def ask_placed(root: str) -> Ask[Placed]:
    """Return the ask for all of the table in sparkwright/common/placed.py but the releases."""
    units = [*unit_names(), *_OTHERS]
    paths = [root, *(f"{root}/{name}" for name in _LARGE)]
    paths += [path for file in placed.FILES for path in (file.path, file.path.rpartition("/")[0])]
    return Placed.ask(
        folders=[f"{root}/{each.name}" for each in placed.FOLDERS if each.name not in _LARGE],
        paths=[*paths, *(f"{SYSTEMD}/{name}" for name in unit_names())],
        units=[each for each in units if "@." not in each and "-." not in each],
        parameters=[pattern for file in placed.FILES for pattern in file.parameters],
        users=USERS,
    )


@cache
def ask_release_files(root: str, release: str) -> Ask[Placed]:
    """Return the ask for the files of a release."""
    return Placed.ask(folders=[f"{root}/releases/{release}"])


def asks_for(root: str, paths: Sequence[str]) -> dict[Ask[Placed], list[str]]:
    """Return which ask is for which of these paths: as few as there can be."""
    table = ask_placed(root)
    folders = tuple(f"{folder}/" for folder in table.arguments["folders"])
    known = {*table.arguments["paths"], *table.arguments["folders"]}
    asks: dict[Ask[Placed], list[str]] = {}
    strange = []
    for path in paths:
        below = path.removeprefix(f"{root}/releases/")
        if path in known or path.startswith(folders):
            asks.setdefault(table, []).append(path)
        elif below != path:
            asks.setdefault(ask_release_files(root, below.partition("/")[0]), []).append(path)
        else:
            strange.append(path)
    return asks | ({Placed.ask(paths=strange): strange} if strange else {})
