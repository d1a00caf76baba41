"""The differences between what is on a Spark and what is declared."""

from collections.abc import Iterator

from deploys.plan.checkup import Checkup
from deploys.plan.difference import Difference
from deploys.plan.host_ailments import HOST_AILMENTS

# Of what the doctor knows of a host, that which is a state that nobody declared: what it is called
# and what is expected of it.
_AILMENTS = {
    "power-fault": ("GPU clock under load", "as high as the load asks"),
    "gpu-lost-in-container": ("GPU in the engine's container", "there"),
}


def host_differences(checkup: Checkup) -> Iterator[Difference]:
    """Yield what of a host is in no state that anybody would declare."""
    for ailment in HOST_AILMENTS:
        if ailment.name in _AILMENTS and (evidence := ailment.sign(checkup)):
            what, expected = _AILMENTS[ailment.name]
            yield Difference(what, expected, evidence)
