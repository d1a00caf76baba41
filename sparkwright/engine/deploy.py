"""The engine: its release on the host, its supervisor and unit, and a real answer from it."""

from collections.abc import Iterator
from typing import Any

from pyinfra.api import deploy

from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.render import unit_file
from sparkwright.engine.operations.power import started, stopped, vacated
from sparkwright.engine.operations.release import programs_and_release
from sparkwright.engine.operations.serve import idle, serving
from sparkwright.engine.state import ask_engines, ask_release
from sparkwright.engine.switch import SwitchSettings
from sparkwright.machine.host.operations.services import guarded
from sparkwright.plan.memory.plan import load_of
from sparkwright.plan.release.container import guard_files
from sparkwright.plan.release.programs import program_files
from sparkwright.plan.release.release import PROGRAM, Release
from sparkwright.run.target import Target, seats, target

_UNITS = [
    HOST_FILES / "engine" / "vllm@.service",
    HOST_FILES / "engine" / "switch" / "switch@.service",
]


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what the steps read of a Spark."""
    for seat in own.chosen_seats:
        yield ask_release(seat.release) if seat.release else ask_engines(seat.place)


@deploy("Engine")
def prepare() -> None:
    """Lay the releases down, and what switches to them; whatever serves goes on."""
    for own in seats():
        if served := own.release:
            _lay_down(served)


@deploy("Second engine")
def vacate() -> None:
    """Serve no second replica that the inventory does not name; the first one goes on."""
    own = target()
    wanted = [each.seat for each in own.seats if each.seat]
    vacated(name="None that is not declared", root=own.root, wanted=wanted)


@deploy("Engine")
def apply() -> None:
    """Lay each release down, then serve it; on an idle Spark, serve nothing."""
    for own in seats():
        served = own.release
        if served is None:
            idle(name="Serve nothing", root=own.place)
            return
        _lay_down(served)
        serving(
            name="Serve the release",
            release=served,
            settings=settings(served, own),
            peer=own.peer,
        )


@deploy("Engine")
def stop() -> None:
    """Stop what serves, until `start`, a run, or the next boot."""
    for own in seats():
        stopped(name="Stop", root=own.place, replica=own.replica or own.spark)


@deploy("Engine")
def start() -> None:
    """Start what served last; an idle Spark stays idle."""
    root = target().root
    if target().recipe_name:
        programs_and_release(name="Programs of the switch", root=root, entries=programs(root))
        for own in seats():
            started(
                name="Start",
                root=own.place,
                replica=own.replica or own.spark,
                settings=settings(None, own),
                peer=own.peer,
            )


def settings(served: Release | None, own: Target) -> SwitchSettings:
    """Return how a seat switches to a release; None stands for any that is on the Spark."""
    return SwitchSettings(
        trial=own.settings.trial_seconds,
        drain=own.settings.drain_seconds,
        door=own.is_head,
        hardware=own.hardware,
        load=load_of(served.recipe, own.lock, len(own.ranks)) if served else None,
        others=tuple(each.place for each in own.seats if each.seat != own.seat),
    )


def programs(root: str) -> list[Entry]:
    """Return the unit of an engine and what switches from one to another, as files of a Spark."""
    return [*program_files(root), *(unit_file(path, root=root) for path in _UNITS)]


def _lay_down(served: Release) -> None:
    folder = f"{served.root}/releases/{served.id}"
    plan = target().fabric
    fabric = (*plan.addresses, *plan.peer_addresses) if plan else ()
    internet = bool(target().settings.media_domains)
    guarded(name="Guard of the engine", entries=guard_files(served.root, fabric, internet=internet))
    programs_and_release(
        name="Release and unit",
        root=served.root,
        entries=[
            Directory(folder),
            Directory(f"{folder}/bin"),
            ManagedFile(f"{folder}/{PROGRAM}", served.program, mode="755"),
            *(
                ManagedFile(f"{folder}/{name}", text, mode="755" if name == "run" else "644")
                for name, text in served.files.items()
            ),
            *programs(served.root),
        ],
    )
