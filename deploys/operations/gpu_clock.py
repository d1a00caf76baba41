"""A limit of the GPU's clock, or none."""

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from deploys.facts.services import Service
from deploys.operations.differences import differs
from deploys.operations.services import service
from deploys.plan.files import ManagedFile

UNIT = "gpu-clock.service"
_PATH = f"/etc/systemd/system/{UNIT}"


@operation()
def gpu_clock(limit: int | None, unit: str) -> Generator[PyinfraCommand]:
    """Have the GPU's clock limited, from each boot on; without a limit, have that undone.

    Args:
        limit: MHz; None for none.
        unit: the text of files/gpu/gpu-clock.service, for the Spark's root folder.
    """
    if limit is not None:
        text = unit.replace("MEGAHERTZ", str(limit))
        yield from service._inner(unit=UNIT, entries=[ManagedFile(_PATH, text)])
    elif host.get_fact(Service, unit=UNIT, files=[]).known:
        differs(UNIT, "none: the GPU's clock has no limit", "one")
        yield StringCommand(
            f"systemctl disable --quiet --now {UNIT}; rm -f {_PATH} && systemctl daemon-reload"
        )
    else:
        host.noop("the GPU's clock has no limit of ours")
