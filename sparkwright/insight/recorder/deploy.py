"""The flight recorder: what a Spark was, second by second, before it went down."""

from pyinfra.api import deploy

from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import folder
from sparkwright.common.render import unit_file
from sparkwright.insight.monitoring.deploy import stopped
from sparkwright.machine.host.operations.services import service
from sparkwright.plan.release.programs import program_files
from sparkwright.run.target import target

UNIT = "flight-recorder.service"


@deploy("Flight recorder")
def apply() -> None:
    """Have a Spark that serves record itself; on a pair, each also has the other's last minutes."""
    own = target()
    if not own.recipe_name:
        stopped(name="None of an idle Spark", units=[UNIT])
        return
    plan = own.fabric
    pair = f" {plan.addresses[0]} {plan.peer_addresses[0]}" if plan else ""
    unit = unit_file(HOST_FILES / "insight" / "recorder" / UNIT, root=own.root, pair=pair)
    entries = [*(folder(own.root, each) for each in ("bin", "state")), *program_files(own.root)]
    service(name="A line a second", unit=UNIT, entries=[*entries, unit])
