"""An upgrade of the system's packages that runs hold: on one replica, which then comes first."""

from collections.abc import Generator

from pyinfra import host, state
from pyinfra.api import deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.command_line import next_line
from sparkwright.common.operations import failing, notice, spark_name
from sparkwright.engine.state import EngineState
from sparkwright.machine.host.operations.packages import system_apt
from sparkwright.machine.host.updates import Coming, SystemPackages, newer
from sparkwright.run.ending import conclude
from sparkwright.run.state import read
from sparkwright.run.target import Target, target, target_of
from sparkwright.upkeep.upgrade.turn import Standing, turn

# By Spark: the replica whose turn this run has found it to be, before it changed anything.
_turns: dict[str, str] = {}


@deploy("Upgrade")
def apply() -> None:
    """Show what is newer, and upgrade those packages; they stay held, and nothing boots."""
    whose_turn(name="Whose turn it is")
    upgrade(name="Packages of the system")


@operation()
def whose_turn() -> Generator[PyinfraCommand]:
    """Find it by all Sparks of the run, before the first of them changes."""
    standings: dict[str, list[Standing]] = {}
    for each in sorted(state.active_hosts, key=[*host.inventory].index):
        own = target_of(each)
        standings.setdefault(_name(own), []).append(_standing(own))
    found = {
        name: Standing(
            any(each.old for each in of),
            any(each.due for each in of),
            all(each.serves for each in of),
        )
        for name, of in standings.items()
    }
    _turns[host.name], first = turn(found)
    if first:
        yield failing(
            f"{first} To upgrade another one nevertheless: {next_line('upgrade', '--limit NAME')}"
        )
    else:
        host.noop(f"it is that of {_turns[host.name] or 'none: nothing that is held is older'}")


def _name(own: Target) -> str:
    return own.replica or own.spark


def _standing(own: Target) -> Standing:
    coming = read(own.host, Coming.ask(root=own.root))
    serves = True
    for seat in own.seats:
        engines = read(own.host, EngineState.ask(root=seat.place))
        unit = engines.units.get(engines.current or "")
        serves = serves and (seat.recipe_name is None or bool(unit and unit.active == "active"))
    return Standing(bool(_held(own, coming)), coming.now != coming.then, serves)


def _held(own: Target, coming: Coming) -> dict[str, str]:
    """Return the packages that runs hold, and that are newer in apt's lists, by that version."""
    packages = read(own.host, SystemPackages.ask(root=own.root))
    ours = packages.held.intersection(packages.ours)
    return {name: new for _, name, _, new, _ in coming.newer if name in ours}


@operation()
def upgrade() -> Generator[PyinfraCommand]:
    """Upgrade what is held to the versions that were shown, and hold what that has installed."""
    own, ask = target(), SystemPackages.ask(root=target().root)
    if _turns.get(host.name) != _name(own):
        host.noop("it is not its turn")
        return
    coming = read(host, Coming.ask(root=own.root))
    packages = _held(own, coming)
    for difference in newer(coming, {*packages}, "comes"):
        notice(str(difference))
    yield system_apt("upgrade", [f"{name}={new}" for name, new in sorted(packages.items())])
    if names := sorted(read(host, ask).differing(True)):
        yield system_apt("hold", names)
    then = next_line("verify", f"--limit {_name(own)}")
    conclude(
        spark_name(host), f": it has the new packages. Reboot it; then {then}, then the next one"
    )
