"""The share: what a head offers to the worker of its pair."""

from sparkwright.common.files import ManagedFile
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.ports import IMAGE_PORT, SHARE_PORT
from sparkwright.common.render import unit_file
from sparkwright.fleet.fabric_plan import FabricPlan

_FILES = HOST_FILES / "fabric"


def share_url(address: str) -> str:
    """Return where a Spark lends files."""
    return f"http://{address}:{SHARE_PORT}"


def share_units(root: str, plan: FabricPlan) -> list[ManagedFile]:
    """Return the units of the share, and of the one for an image."""
    values = {
        "root": root,
        "address": plan.addresses[0],
        "port": SHARE_PORT,
        "image_port": IMAGE_PORT,
        "clients": " ".join(plan.peer_addresses),
    }
    paths = sorted((*_FILES.glob("fabric-share.*"), *_FILES.glob("fabric-image*")))
    return [unit_file(path, **values) for path in paths]
