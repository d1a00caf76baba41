"""The engine: its release on the host, its supervisor and unit, and a real answer from it."""

import json
import shlex
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.artifacts.compiled.deploy import ask_archive, lent
from sparkwright.common.command_line import next_line
from sparkwright.common.files import ABSENT, Directory, Entry, ManagedFile
from sparkwright.common.operations import Refused, differs, failing, notice, spark_name
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import SEAT_FOLDERS, SYSTEMD, TURNS, Place
from sparkwright.common.render import unit_file
from sparkwright.common.schema import NAME
from sparkwright.door.door import SEAT_UNIT, door_unit
from sparkwright.engine.operations import end, idle, serve_again, serving, switch_settings
from sparkwright.engine.state import EngineState, ask_release
from sparkwright.engine.switch import MASK, MemoryState, unmasked
from sparkwright.machine.host.operations.files import managed_files, path_states, placed, unit_state
from sparkwright.machine.host.operations.services import guarded, service
from sparkwright.plan.memory.turns import alone, room
from sparkwright.plan.release.container import guard_files
from sparkwright.plan.release.programs import program_files
from sparkwright.plan.release.release import PROGRAM, SCRIPTS, Release
from sparkwright.run.ending import conclude
from sparkwright.run.spark import fleet_of
from sparkwright.run.state import read
from sparkwright.run.target import Target, seats, target

_LOOP = HOST_FILES / "engine" / "turns" / "turns.service"
_UNITS = [
    HOST_FILES / "engine" / "vllm@.service",
    HOST_FILES / "engine" / "switch" / "switch@.service",
]


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what the steps read of a Spark."""
    for seat in own.chosen_seats:
        served = seat.release
        if served and served.ranks.nodes == 1:
            yield ask_archive(served)
        yield ask_release(served) if served else EngineState.ask(root=seat.place)
    if own.takes_turns:
        yield MemoryState.ask(root=own.root)


@deploy("Engine")
def prepare() -> None:
    """Lay the releases down, and what switches to them; whatever serves goes on."""
    for own in seats():
        if served := own.release:
            _lay_down(served)


@deploy("Second engine")
def vacate() -> None:
    """Serve no second replica that the inventory does not name; the first one goes on."""
    wanted = [each.seat for each in target().seats if each.seat]
    vacated(name="None that is not declared", wanted=wanted)


@deploy("Engine")
def apply() -> None:
    """Lay each release down, then serve it; on an idle Spark, serve nothing."""
    take_turns(name="Models that take turns", own=target())
    for own in seats():
        if served := own.release:
            _lay_down(served)
            asked = switch_settings(own, served)
            serving(name="Serve the release", release=served, settings=asked, peers=own.peers)
        else:
            idle(name="Serve nothing", place=own.place)


@deploy("Engine")
def stop() -> None:
    """Stop what serves, until `start`, a run, or the next boot."""
    for own in seats():
        stopped(name="Stop", own=own)


@deploy("Engine")
def start() -> None:
    """Start what served last; an idle Spark stays idle."""
    if target().recipe_name:
        laid_down(name="Programs of the switch")
        for own in seats():
            started(name="Start", own=own)


def _lay_down(served: Release) -> None:
    folder = f"{served.root}/releases/{served.id}"
    plan = target().fabric
    fabric = (*plan.addresses, *plan.peer_addresses) if plan else ()
    internet = bool(target().settings.media_domains)
    guarded(name="Guard of the engine", entries=guard_files(served.root, fabric, internet=internet))
    entries: list[Entry] = [
        Directory(folder),
        *(Directory(f"{folder}/{name}") for name in served.directories),
        ManagedFile(f"{folder}/{PROGRAM}", served.program, mode="755"),
        *(
            ManagedFile(f"{folder}/{name}", text, mode="755" if name in SCRIPTS else "644")
            for name, text in served.files.items()
        ),
    ]
    laid_down(name="Release and unit", entries=entries)
    if served.ranks.nodes == 1:
        lent(name="Compiled code", served=served)


@operation()
def laid_down(entries: Sequence[Entry] = ()) -> Generator[PyinfraCommand]:
    """Have the files of a release, the unit of an engine, and what switches from one to another.

    Programs that are superseded are deleted; other releases stay unchanged.
    """
    root = target().root
    units = (unit_file(path, root=root) for path in _UNITS)
    changes = list(managed_files._inner(entries=[*entries, *program_files(root), *units]))
    yield from changes
    # A failing operation must change nothing.
    if changes and not isinstance(changes[0], Refused):
        yield StringCommand(superseded_script(root))


def superseded_script(root: str) -> str:
    """Return the POSIX shell script that deletes programs which `sparkwright-host` replaced.

    systemd reads the new unit files first: an engine that ends meanwhile is started by these.
    """
    return f"""\
cd {shlex.quote(root)}/bin && systemctl daemon-reload || exit
for file in sparkwright-host-*; do
  [ "$file" = "$(readlink sparkwright-host)" ] || rm -f "$file"
done"""


@operation()
def take_turns(own: Target) -> Generator[PyinfraCommand]:
    """Have the loop of turns, and what it goes by, before a model needs a place; or neither."""
    path, name = f"{own.root}/{TURNS}", _LOOP.name
    if own.takes_turns:
        unit, told = unit_file(_LOOP, root=own.root), ManagedFile(path, turns_text(own))
        yield from service._inner(unit=name, entries=[*program_files(own.root), told, unit])
    elif path_states([path]).get(path, ABSENT).kind != "absent" or unit_state(name).known:
        differs(path, "none: no model takes turns", "a file")
        off = f"systemctl disable --quiet --now {name} 2>/dev/null; rm -f {SYSTEMD}/{name}"
        yield StringCommand(off, QuoteString(path), "&& systemctl daemon-reload")
    else:
        host.noop("none takes turns")


def turns_text(own: Target) -> str:
    """Return what a Spark's loop of turns goes by: files/host/engine/turns/DESIGN.md."""
    memory, told = read(host, MemoryState.ask(root=own.root)), fleet_of(own.fleet).replicas
    total = room(own.hardware, memory.total, memory.handover)
    replicas = {
        each.name: {
            **{"seat": seat.seat, "rank": seat.rank, "hold": own.settings.hold_seconds},
            **{"on_demand": seat.on_demand, "pinned": seat.pinned, "grouped": each.grouped},
            **{"size": each.size, "spare": each.spare},
            "turn": told[each.name].turn_seconds if seat.on_demand else 0,
            "idle": (minutes := told[each.name].idle_minutes) and 60 * minutes,
        }
        for seat, each in zip(own.seats, alone(own.tenants, total), strict=True)
    }
    every = {"total": total, "drain": own.settings.drain_seconds, "replicas": replicas}
    return json.dumps(every, indent=1) + "\n"


@operation()
def stopped(own: Target) -> Generator[PyinfraCommand]:
    """Stop the engine until it is started, a run serves it again, or the Spark boots.

    Requests in flight have the time to end that their recipe gives them; a switch under way is
    reverted first.
    """
    engines = read(host, EngineState.ask(root=own.place))
    running = [engine for engine in engines.units.values() if not engine.ended]
    if not running:
        host.noop("no engine runs")
    for release in engines.switches:
        yield StringCommand("systemctl stop", QuoteString(f"switch@{release}.service"))
    stop = "systemctl stop"
    for engine in running:
        yield StringCommand(stop, QuoteString(f"vllm@{engine.release}.service"))
    if own.on_demand and engines.current:
        # A request may have started it between the two; before the first, systemd would no longer
        # know how it ends.
        unit = QuoteString(f"vllm@{engines.current}.service")
        yield StringCommand(MASK, unit, "&&", stop, unit)
    now = "is stopped" if running else "was stopped already"
    replica = own.replica or own.spark
    conclude(replica, f" {now}. It starts by {next_line('start')}, the next run, or a boot.")


@operation()
def started(own: Target) -> Generator[PyinfraCommand]:
    """Start the release that served last, and wait until it answers."""
    engines = read(host, EngineState.ask(root=own.place))
    release = engines.current
    if release is None:
        yield failing(
            f"Nothing has served on {spark_name(host)} yet. To begin: {next_line('apply')}"
        )
        return
    unit = engines.units.get(release)
    if own.on_demand:
        if unit and unit.masked:
            yield StringCommand(unmasked(own.place, release, own.is_head))
        elif own.is_head:
            host.noop("requests start it")
        if not own.is_head:
            # It waits for its head.
            name = QuoteString(f"vllm@{release}.service")
            yield StringCommand("systemctl start --no-block", name)
        conclude(own.replica or own.spark, f": requests start {release}.")
        return
    if unit and unit.active == "active":
        host.noop(f"vllm@{release}.service runs")
        conclude(own.replica or own.spark, f" serves {release} already.")
        return
    notice(f"{release} starts", "green")
    yield from serve_again(own, release)


@operation()
def vacated(wanted: Sequence[str]) -> Generator[StringCommand]:
    """Have no second engine or door but the declared; releases, weights and images stay.

    It is done before anything else of a run that changes what serves: memory and ports are free
    then for what takes the place.
    """
    root = target().root
    inside = (path.removeprefix(f"{root}/seats/") for path in placed().files)
    known = sorted(name for name in inside if NAME.fullmatch(name))
    strays = [seat for seat in known if seat not in wanted]
    if not strays:
        host.noop("there is none")
        return
    for seat in strays:
        place = Place(root, seat)
        unit = door_unit(place)
        differs(f"replica {seat}", "none: the inventory does not name it here", "one")
        engines, off = read(host, EngineState.ask(root=place)), "systemctl disable --quiet --now"
        yield from end(engines)
        if engines.current:
            # While its door is there, a request would start it again.
            name = QuoteString(f"vllm@{engines.current}.service")
            yield StringCommand(MASK, name, "&& systemctl stop", name)
        yield StringCommand(off, QuoteString(unit), "2>/dev/null; true")
        folders = [*(f"{root}/{name}/seats/{seat}" for name in SEAT_FOLDERS), place]
        yield StringCommand("rm -rf", *map(QuoteString, folders))
    if len(strays) == len(known):
        yield StringCommand("rm -f", f"{SYSTEMD}/{SEAT_UNIT}", "&& systemctl daemon-reload")
        folders = [*(f"{root}/{name}/seats" for name in SEAT_FOLDERS), f"{root}/seats"]
        yield StringCommand("rmdir", *map(QuoteString, folders))
