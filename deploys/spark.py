"""pyinfra inventory.py deploys/spark.py: from the factory state to a served model.

One step alone: pyinfra inventory.py sparkwright.weights.deploy.apply
"""

from sparkwright.deploy import provision
from sparkwright.engine import deploy as engine
from sparkwright.fabric import deploy as fabric
from sparkwright.firewall import deploy as firewall
from sparkwright.preflight import deploy as preflight
from sparkwright.run.lease import hold_lease
from sparkwright.run.session import start_session
from sparkwright.runtime import deploy as runtime

start_session()
hold_lease()

preflight.apply()
fabric.apply()
firewall.apply()
runtime.apply()
provision()
engine.apply()
