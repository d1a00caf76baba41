"""The speed of RDMA between the two Sparks, measured by `ib_write_bw`."""

import shlex
from collections.abc import Sequence
from hashlib import sha256

from sparkwright.common.errors import Finding, error
from sparkwright.common.part import read_json
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.network.fabric.state import MEASURING, FabricState

# One TCP port a twin, as in NVIDIA's guide.
PORTS = (12000, 12001)

STALE = (
    "Reboot both Sparks; if that does not help, shut both down, unplug the power of both for 60 s "
    "and leave the cable in"
)


def server_script(device: str, gid: int, port: int) -> str:
    """Return the command that waits for a measurement by the other Spark, and fails without one."""
    missed = f"echo 'the other Spark did not measure {device}: see its error' >&2; exit 1"
    words = f"ib_write_bw -d {shlex.quote(device)} -i 1 -x {gid} -p {port} -F --report_gbits"
    return f"timeout {MEASURING} {words} >/dev/null || {{ {missed}; }}"


def record(
    plan: FabricPlan, own: FabricState, peer: FabricState, port: tuple[str, str]
) -> dict[str, str]:
    """Return the record of a link, by which another cable end, address or MTU is recognized."""
    ends = [*plan.interfaces, *plan.peer_addresses, str(plan.mtu)]
    ends += [state.netdevs[netdev].mac for state in (own, peer) for netdev in port]
    return {"link": sha256(" ".join(ends).encode()).hexdigest()[:16]}


def is_measured(state: FabricState, link: dict[str, str]) -> bool:
    """Tell whether this very link was measured, and found fast enough."""
    try:
        found = read_json(state.record)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("link") == link["link"]


def bandwidth_findings(
    plan: FabricPlan, port: tuple[str, str], measured: Sequence[float | None]
) -> list[Finding]:
    """Return the faults that the measured Gb/s of each twin shows."""
    found = []
    for netdev, value in zip(port, measured, strict=True):
        if value is None:
            found.append(
                error(
                    f"ib_write_bw to {plan.peer} by {netdev} gave no result",
                    "Run it by hand (`ib_write_bw --help`), or look at `dmesg | grep mlx5`",
                )
            )
        elif value < plan.bandwidth_minimum:
            found.append(
                error(
                    f"RDMA to {plan.peer} by {netdev} reaches {value:.1f} Gb/s, "
                    f"expected {plan.bandwidth_minimum:g} (fabric_bandwidth_minimum)",
                    STALE,
                )
            )
    return found
