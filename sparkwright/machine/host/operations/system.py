"""Kernel, driver, container toolkit and Docker: what comes unasked, marks, and an upgrade."""

from collections.abc import Generator, Iterator
from typing import ClassVar

from pyinfra import host, state
from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import Difference
from sparkwright.common.operations import differs, failing, notice, planning, spark_name
from sparkwright.common.part import Ask, Part
from sparkwright.machine.host.operations.packages import system_apt
from sparkwright.plan.causes.log_causes import known_of
from sparkwright.run.ending import conclude
from sparkwright.run.state import read
from sparkwright.run.target import Target, target


class System(Part):
    """The packages of kernel, driver, container toolkit and Docker.

    Attributes:
        packages: whether each is held; `ours` were marked by runs.
        now: the versions of kernel and driver that run.
        coming: kind, name, version, newer version, when it comes ("held" where runs hold it).
    """

    part: ClassVar = "updates"
    patience: ClassVar[float] = 60

    packages: dict[str, bool]
    ours: tuple[str, ...]
    now: dict[str, str]
    coming: tuple[tuple[str, str, str, str, str], ...]

    def differences(self, *, held: bool = False) -> Iterator[Difference]:
        """Yield what would come unasked, or what runs hold, with what is known of it."""
        for kind, name, old, new, when in self.coming:
            if held == (when == "held"):
                before, then = known_of(self.now), known_of({**self.now, kind: f"{new} {name}"})
                known = [f"{each.cause} [{each.name}]" for each in then if each not in before]
                yield Difference(name, old, ". Known: ".join([f"{new} ({when})", *known]))


def ask_system(own: Target) -> Ask[System]:
    """Return the ask of a run; what would come, which takes apt seconds, is for its plan."""
    return System.ask(root=own.root, hold=own.settings.hold_system, apt=planning())


@operation()
def system_packages() -> Generator[PyinfraCommand]:
    """Hold the system's packages, or end the marks of runs; name what comes unasked."""
    own = target()
    hold, found = own.settings.hold_system, read(host, ask_system(own))
    for difference in found.differences():
        notice(str(difference))
        differs(*difference)
    free = [name for name, held in found.packages.items() if not held]
    names = free if hold else found.ours
    if names:
        wanted, present = ("held", "not held") if hold else ("not held", "held")
        differs("packages of the system", wanted, f"{present}: {' '.join(names)}")
        notice(f"to be {wanted}: {' '.join(names)}", "cyan")
        yield system_apt("hold" if hold else "unhold", names)


@operation()
def upgrade() -> Generator[PyinfraCommand]:
    """Upgrade what runs hold, of one replica; that ends their marks, and nothing boots."""
    fleet = {each: each.data.get("replica") or spark_name(each) for each in host.inventory}
    replica, *others = dict.fromkeys(fleet[each] for each in fleet if state.is_host_in_limit(each))
    if others:
        line = next_line("upgrade", f"--limit {replica}")
        yield failing(f"Found {1 + len(others)} replicas; expected one at a time, at first: {line}")
        return
    found = read(host, System.ask(root=target().root, apt=True))
    if not (newer := [*found.differences(held=True)]):
        conclude(spark_name(host), ": no package that runs hold (hold_system) has a newer version")
        return
    for difference in newer:
        notice(str(difference))
    yield system_apt("upgrade", sorted(found.packages.keys() & found.ours))
    order, lines = [*dict.fromkeys(fleet.values())], [next_line("verify", f"--limit {replica}")]
    for each in order[order.index(replica) + 1 :][:1]:
        lines.append(next_line("upgrade", f"--limit {each}"))
    conclude(spark_name(host), f": has the new packages. Reboot it; then {'; then '.join(lines)}")
