"""pyinfra inventory.py deploys/gateway.py: one address for all replicas of the inventory.

Only the gateway's host takes part in this run: see inventory/sparks.py.
"""

from deploys.session import start_session
from deploys.steps import gateway

start_session()

gateway.apply()
