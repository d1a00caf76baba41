"""The shares: what a head lends to the worker of its pair, and to the heads of other replicas."""

from collections.abc import Iterable

from sparkwright.common.files import ManagedFile
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.ports import LAN_SHARE_PORT, SHARE_PORT
from sparkwright.common.render import unit_file
from sparkwright.fleet.fabric_plan import FabricPlan
from sparkwright.fleet.fleet import bracketed

_FILES = HOST_FILES / "fabric"


def share_url(address: str) -> str:
    """Return where a Spark lends files."""
    return f"http://{address}:{SHARE_PORT}"


def share_units(root: str, plan: FabricPlan) -> list[ManagedFile]:
    """Return the units of the share."""
    values = {
        "root": root,
        "address": plan.addresses[0],
        "port": SHARE_PORT,
        "clients": " ".join(plan.peer_addresses),
    }
    return [unit_file(path, **values) for path in sorted(_FILES.glob("fabric-share.*"))]


def lan_share_url(address: str) -> str:
    """Return where a Spark lends checkpoints to other replicas."""
    return f"http://{bracketed(address)}:{LAN_SHARE_PORT}"


def lan_share_units(
    root: str, address: str, clients: Iterable[str], folders: Iterable[str]
) -> list[ManagedFile]:
    """Return the units of the share on the LAN."""
    values = {
        "root": root,
        "address": bracketed(address),
        "port": LAN_SHARE_PORT,
        "clients": " ".join(clients),
        "folders": " ".join(f"-{root}/{folder}" for folder in folders),
    }
    return [unit_file(path, **values) for path in sorted(_FILES.glob("lan-share.*"))]
