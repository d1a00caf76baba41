"""The differences between what is on a Spark and what is declared."""

from collections.abc import Iterator

from sparkwright.common.difference import Difference
from sparkwright.doctor.checkup import Checkup
from sparkwright.doctor.host_causes import HOST_CAUSES

# Of what the doctor knows of a host, that which is a state that nobody declared: what it is called
# and what is expected of it.
_CAUSES = {
    "power-fault": ("GPU clock under load", "as high as the load asks"),
    "gpu-lost-in-container": ("GPU in the engine's container", "there"),
}


def host_differences(checkup: Checkup) -> Iterator[Difference]:
    """Yield what of a host is in no state that anybody would declare."""
    for cause in HOST_CAUSES:
        if cause.name in _CAUSES and (evidence := cause.sign(checkup)):
            what, expected = _CAUSES[cause.name]
            yield Difference(what, expected, evidence)
