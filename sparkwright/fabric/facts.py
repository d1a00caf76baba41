"""The fabric of a Spark, and the speed of its RDMA."""

from sparkwright.common.facts import HostFact
from sparkwright.fabric.bandwidth import client_script, gbits
from sparkwright.fabric.state import FabricState
from sparkwright.fabric.survey import fabric_script, parse_fabric


class Fabric(HostFact[FabricState]):
    """Everything that is judged of the fabric, read in one command."""

    command = staticmethod(fabric_script)
    parse = staticmethod(parse_fabric)


class WriteBandwidth(HostFact[float | None]):
    """Gb/s that RDMA writes to the peer reach by one twin; None when the test did not run."""

    command = staticmethod(client_script)
    parse = staticmethod(gbits)
