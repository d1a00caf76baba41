"""An upgrade of the system's packages that runs hold: of one replica of a fleet after the other."""

from collections.abc import Generator

from pyinfra import host, state
from pyinfra.api import Host, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.command_line import next_line
from sparkwright.common.operations import failing, notice, spark_name
from sparkwright.engine.state import EngineState
from sparkwright.machine.host.operations.packages import system_apt
from sparkwright.machine.host.updates import Standing, System, turn
from sparkwright.run.ending import conclude
from sparkwright.run.state import read
from sparkwright.run.target import Target, target, target_of

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
    sparks = filter(state.is_host_in_limit, host.inventory)
    _turns[host.name], first = turn([*map(_standing, sparks)])
    if first:
        other = next_line("upgrade", "--limit NAME")
        yield failing(f"{first} To upgrade another one nevertheless: {other}")
        return
    host.noop(_turns[host.name] or "nobody's")
    if not _turns[host.name]:
        conclude(spark_name(host), ": no package that runs hold (hold_system) has a newer version")


def _name(own: Target) -> str:
    return own.replica or own.spark


def _standing(spark: Host) -> Standing:
    own = target_of(spark)
    if spark not in state.active_hosts:
        return Standing(_name(own), old=False, due=False, serves=False)
    found, serves = read(spark, System.ask(root=own.root, apt=True)), True
    for seat in own.seats:
        engines = read(spark, EngineState.ask(root=seat.place))
        unit = engines.units.get(engines.current or "")
        serves = serves and (seat.recipe_name is None or bool(unit and unit.active == "active"))
    return Standing(_name(own), bool(found.old), found.now != found.then, serves)


@operation()
def upgrade() -> Generator[PyinfraCommand]:
    """Upgrade what runs hold to the versions that are shown, and hold what comes with them."""
    own = target()
    if _turns.get(host.name) != _name(own):
        host.noop("it is not its turn")
        return
    found = read(host, System.ask(root=own.root, apt=True))
    for difference in found.coming(found.old, "comes"):
        notice(str(difference))
    yield system_apt("upgrade", [f"{name}={new}" for name, new in sorted(found.old.items())])
    if names := read(host, System.ask(root=own.root)).differing(hold=True):
        yield system_apt("hold", names)
    then = next_line("verify", f"--limit {_name(own)}")
    conclude(spark_name(host), f": has the new packages. Reboot it; then {then}; then the next one")
