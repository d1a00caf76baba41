"""What several commands have a Spark go through."""

from sparkwright.door import deploy as door
from sparkwright.host import deploy as host
from sparkwright.image import deploy as image
from sparkwright.jobs import deploy as jobs
from sparkwright.link import deploy as link
from sparkwright.monitoring import deploy as monitoring
from sparkwright.weights import deploy as weights


def provision() -> None:
    """Call all that an engine's start needs on a Spark, but what may disturb one that serves.

    pyinfra orders operations by the line of each call.
    """
    host.apply()
    host.folders()
    link.apply()
    jobs.apply()
    weights.authenticate()
    weights.apply()
    image.apply()
    door.apply()
    monitoring.apply()
