"""Stop what serves, for a while or for good, and start it again."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from pyinfra import host
from pyinfra.api import Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.command_line import next_line
from sparkwright.common.operations import differs, failing, notice, spark_name
from sparkwright.common.placed import SEAT_FOLDERS, SYSTEMD, Place
from sparkwright.common.schema import NAME
from sparkwright.door.door import SEAT_UNIT, door_unit
from sparkwright.engine.operations.serve import end, serve_again
from sparkwright.engine.state import ask_engines
from sparkwright.engine.switch import SwitchSettings
from sparkwright.machine.host.facts import placed
from sparkwright.run.ending import conclude
from sparkwright.run.state import read


@operation()
def stopped(root: str, replica: str) -> Generator[PyinfraCommand, None, None]:
    """Stop the engine until it is started, a run serves it again, or the Spark boots.

    Requests in flight have the time to end that their recipe gives them; a switch under way is
    reverted first.
    """
    engines = read(host, ask_engines(root))
    running = [engine for engine in engines.units.values() if not engine.ended]
    if not running:
        host.noop("no engine runs")
    for release in engines.switches:
        yield StringCommand("systemctl stop", QuoteString(f"switch@{release}.service"))
    for engine in running:
        yield StringCommand("systemctl stop", QuoteString(f"vllm@{engine.release}.service"))
    now = "is stopped" if running else "was stopped already"
    conclude(replica, f" {now}. It starts by {next_line('start')}, the next run, or a boot.")


@operation()
def started(
    root: str, replica: str, settings: SwitchSettings, peer: Host | None
) -> Generator[PyinfraCommand, None, None]:
    """Start the release that served last, and wait until it answers."""
    engines = read(host, ask_engines(root))
    release = engines.current
    if release is None:
        yield failing(
            f"Nothing has served on {spark_name(host)} yet. To begin: {next_line('apply')}"
        )
        return
    own = engines.units.get(release)
    if own and own.active == "active":
        host.noop(f"vllm@{release}.service runs")
        conclude(replica, f" serves {release} already.")
        return
    notice(f"{release} starts", "green")
    yield from serve_again(root, replica, release, settings, peer)


@operation()
def vacated(root: str, wanted: Sequence[str]) -> Generator[StringCommand]:
    """Have no second engine or door but the declared; releases, weights and images stay.

    It is done before anything else of a run that changes what serves: memory and ports are free
    then for what takes the place.
    """
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
        yield from end(read(host, ask_engines(place)))
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
