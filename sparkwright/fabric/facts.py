"""The fabric of a Spark, and the speed of its RDMA."""

from sparkwright.common.facts import HostFact
from sparkwright.fabric.bandwidth import client_script, gbits
from sparkwright.fabric.state import FabricState, fabric_script, parse_fabric


class Fabric(HostFact[FabricState]):
    """The state of a Spark's fabric, read in one command."""

    command = staticmethod(fabric_script)
    parse = staticmethod(parse_fabric)


class WriteBandwidth(HostFact[float | None]):
    """Gb/s of RDMA writes to the peer by one twin; None when the test did not run."""

    momentary = True

    command = staticmethod(client_script)
    parse = staticmethod(gbits)
