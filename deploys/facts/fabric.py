"""The fabric of a Spark, and the speed of its RDMA."""

from collections.abc import Sequence

from deploys.facts.host_fact import HostFact
from deploys.plan.bandwidth import client_script, gbits
from deploys.plan.fabric_state import FabricState, Probe
from deploys.plan.fabric_survey import fabric_script, parse_fabric


class Fabric(HostFact[FabricState]):
    """Everything that is judged of the fabric, read in one command.

    Args:
        netdevs: the interfaces that may be the fabric's.
        root: the folder that holds our state.
        probes: packets to send to the peer.
    """

    def command(self, netdevs: Sequence[str], root: str, probes: Sequence[Probe] = ()) -> str:
        return fabric_script(netdevs=netdevs, root=root, probes=probes)

    def parse(self, output: list[str]) -> FabricState:
        return parse_fabric(output)


class WriteBandwidth(HostFact[float | None]):
    """Gb/s that RDMA writes to the peer reach by one twin; None when the test did not run.

    Args:
        device, gid: the RDMA device and the GID index of the own address.
        port: TCP port at which the peer's `ib_write_bw` waits.
        address: the peer's.
    """

    def command(self, device: str, gid: int, port: int, address: str) -> str:
        return client_script(device, gid, port, address)

    def parse(self, output: list[str]) -> float | None:
        return gbits(output)
