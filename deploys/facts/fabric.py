"""The fabric of a Spark, and the speed of its RDMA."""

from deploys.facts.host_fact import HostFact
from deploys.plan.bandwidth import client_script, gbits
from deploys.plan.fabric_state import FabricState
from deploys.plan.fabric_survey import fabric_script, parse_fabric


class Fabric(HostFact[FabricState]):
    """Everything that is judged of the fabric, read in one command."""

    command = staticmethod(fabric_script)
    parse = staticmethod(parse_fabric)


class WriteBandwidth(HostFact[float | None]):
    """Gb/s that RDMA writes to the peer reach by one twin; None when the test did not run."""

    command = staticmethod(client_script)
    parse = staticmethod(gbits)
