"""The operation that holds kernel, driver, container toolkit and Docker, or lets them go."""

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.operations import differs, notice, planning
from sparkwright.machine.host.operations.packages import system_apt
from sparkwright.machine.host.updates import System
from sparkwright.run.state import read
from sparkwright.run.target import target


@operation()
def system_packages() -> Generator[PyinfraCommand]:
    """Hold the system's packages, or end the marks of runs; a plan names what comes unasked."""
    own = target()
    hold, found = own.settings.hold_system, read(host, System.ask(root=own.root, apt=planning()))
    for difference in found.surprises():
        notice(str(difference))
    names = found.differing(hold)
    if not names and (hold or not found.ours):
        host.noop("kernel, driver, container toolkit and Docker are held or not, as declared")
        return
    wanted, listed = ("held", "not held")[:: 1 if hold else -1], " ".join(names) or "none by now"
    differs("packages of the system", wanted[0], f"{wanted[1]}: {listed}")
    notice(f"to be {wanted[0]}: {listed}", "cyan")
    yield system_apt("hold" if hold else "unhold", names)
