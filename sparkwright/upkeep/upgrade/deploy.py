"""An upgrade of the system's packages that runs hold: on one replica, which then comes first."""

from collections.abc import Generator

from pyinfra import host, state
from pyinfra.api import Host, deploy, operation
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
    sparks = [*map(_standing, filter(state.is_host_in_limit, host.inventory))]
    _turns[host.name], first = turn(sparks)
    if first:
        other = next_line("upgrade", "--limit NAME")
        yield failing(f"{first} To upgrade another one nevertheless: {other}")
    else:
        host.noop(_turns[host.name] or "nobody's: no package that runs hold has a newer version")


def _name(own: Target) -> str:
    return own.replica or own.spark


def _standing(spark: Host) -> Standing:
    own, serves = target_of(spark), True
    if spark not in state.active_hosts:
        return Standing(_name(own), old=False, due=False, serves=False)
    coming = read(spark, Coming.ask(root=own.root))
    for seat in own.seats:
        engines = read(spark, EngineState.ask(root=seat.place))
        unit = engines.units.get(engines.current or "")
        serves = serves and (seat.recipe_name is None or bool(unit and unit.active == "active"))
    return Standing(_name(own), bool(_old(own)), coming.now != coming.then, serves)


def _old(own: Target) -> dict[str, str]:
    """Return the newer version of each package that runs hold, by apt's lists on the Spark."""
    packages = read(own.host, SystemPackages.ask(root=own.root))
    newer = read(own.host, Coming.ask(root=own.root)).newer
    ours = packages.held.intersection(packages.ours)
    return {name: new for _, name, _, new, _ in newer if name in ours}


@operation()
def upgrade() -> Generator[PyinfraCommand]:
    """Upgrade what is held to the versions that were shown, and hold what that has installed."""
    own, ask = target(), SystemPackages.ask(root=target().root)
    if _turns.get(host.name) != _name(own):
        host.noop("it is not its turn")
        return
    packages = _old(own)
    for difference in newer(read(host, Coming.ask(root=own.root)), {*packages}, "comes"):
        notice(str(difference))
    yield system_apt("upgrade", [f"{name}={new}" for name, new in sorted(packages.items())])
    if names := sorted(read(host, ask).differing(True)):
        yield system_apt("hold", names)
    then = next_line("verify", f"--limit {_name(own)}")
    conclude(
        spark_name(host), f": it has the new packages. Reboot it; then {then}, then the next one"
    )
