"""pyinfra inventory.py deploys/gateway.py: one address for all replicas of the inventory.

Only the gateway's host takes part in this run: see sparkwright/run/inventory/groups.py.
"""

from sparkwright.door.gateway import deploy as gateway
from sparkwright.run.session import start_session

start_session()

gateway.apply()
