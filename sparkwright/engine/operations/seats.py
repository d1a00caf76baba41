"""The second seats of a Spark that nobody declares any more."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation

from sparkwright.common.operations import differs
from sparkwright.common.placed import SEAT_FOLDERS, SYSTEMD, place_of
from sparkwright.door.door import SEAT_UNIT, door_unit
from sparkwright.engine.facts import Engines, Seats


@operation()
def vacated(root: str, wanted: Sequence[str]) -> Generator[StringCommand]:
    """Have no second engine or door but the declared; releases, weights and images stay.

    It is done before anything else of a run that changes what serves: memory and ports are free
    then for what takes the place.
    """
    known = host.get_fact(Seats, root=root)
    strays = [seat for seat in known if seat not in wanted]
    if not strays:
        host.noop("there is none")
        return
    for seat in strays:
        place, unit = place_of(root, seat), door_unit(place_of(root, seat))
        differs(f"replica {seat}", "none: the inventory does not name it here", "one")
        engines = host.get_fact(Engines, root=place)
        for release in engines.switches:
            yield StringCommand("systemctl stop", QuoteString(f"switch@{release}.service"))
        for engine in engines.units.values():
            if not engine.stopped:
                name = QuoteString(f"vllm@{engine.release}.service")
                yield StringCommand("systemctl disable --quiet --now", name)
        yield StringCommand(
            "systemctl disable --quiet --now", QuoteString(unit), "2>/dev/null; true"
        )
        yield StringCommand(
            "rm -rf",
            *(QuoteString(f"{root}/{name}/seats/{seat}") for name in SEAT_FOLDERS),
            QuoteString(place),
        )
    if len(strays) == len(known):
        yield StringCommand("rm -f", f"{SYSTEMD}/{SEAT_UNIT}", "&& systemctl daemon-reload")
        yield StringCommand(
            "rmdir",
            *(QuoteString(f"{root}/{name}/seats") for name in SEAT_FOLDERS),
            QuoteString(f"{root}/seats"),
        )
