"""The operation that limits the GPU's clock."""

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import ManagedFile
from sparkwright.common.operations import differs
from sparkwright.common.placed import SYSTEMD
from sparkwright.host.facts import Service
from sparkwright.host.operations.services import service

UNIT = "gpu-clock.service"
_PATH = f"{SYSTEMD}/{UNIT}"


@operation()
def gpu_clock(unit: ManagedFile | None) -> Generator[PyinfraCommand]:
    """Limit the GPU's clock, now and at every boot, or remove our limit.

    Args:
        unit: the unit that sets the limit; None for no limit.
    """
    if unit:
        yield from service._inner(unit=UNIT, entries=[unit])
    elif host.get_fact(Service, unit=UNIT, files=[]).known:
        differs(UNIT, "none: the GPU's clock has no limit", "one")
        yield StringCommand(
            f"systemctl disable --quiet --now {UNIT}; rm -f {_PATH} && systemctl daemon-reload"
        )
    else:
        host.noop("the GPU's clock has no limit of ours")
