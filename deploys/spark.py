"""pyinfra inventory.py deploys/spark.py: from the factory state to a served model.

One step alone: pyinfra inventory.py deploys.steps.weights.apply
"""

from deploys.lease import hold_lease
from deploys.session import start_session
from deploys.steps import engine, fabric, firewall, preflight, provision, runtime

start_session()
hold_lease()

preflight.apply()
fabric.apply()
firewall.apply()
runtime.apply()
provision.apply()
engine.apply()
