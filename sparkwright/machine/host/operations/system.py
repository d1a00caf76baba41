"""The operation that holds kernel, driver, container toolkit and Docker, or lets them go."""

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.operations import differs, is_looking, notice, planning
from sparkwright.machine.host.operations.packages import system_apt
from sparkwright.machine.host.updates import Coming, SystemPackages, surprises
from sparkwright.run.state import read
from sparkwright.run.target import target


@operation()
def system_packages() -> Generator[PyinfraCommand]:
    """Hold the system's packages, or end the marks of runs; a plan names what comes unasked."""
    own = target()
    hold, found = own.settings.hold_system, read(host, SystemPackages.ask(root=own.root))
    names = sorted(found.differing(hold))
    if planning() and not is_looking():
        for difference in surprises(read(host, Coming.ask(root=own.root))):
            notice(str(difference))
    if not names and (hold or not found.ours):
        host.noop("kernel, driver, container toolkit and Docker are held or not, as declared")
        return
    listed = " ".join(names) or "none by now"
    what = ("held", "not held") if hold else ("not held", "held by a run")
    differs("packages of the system", what[0], f"{what[1]}: {listed}")
    notice(f"{'to be held' if hold else 'no longer held'}: {listed}", "cyan")
    yield system_apt("hold" if hold else "unhold", names)
