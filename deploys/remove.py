"""Takes away all that was put on a Spark; the weights, too, with --data weights=remove."""

from sparkwright.run.session import start_session
from sparkwright.upkeep.cleanup import deploy as cleanup

start_session(lease=True)
cleanup.remove()
