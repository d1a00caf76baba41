"""One address for all replicas of the inventory: a run of the gateway's host alone."""

from sparkwright.door.gateway import deploy as gateway
from sparkwright.run.session import start_session

start_session()
gateway.apply()
