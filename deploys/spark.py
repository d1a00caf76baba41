"""pyinfra inventory.py deploys/spark.py: from the factory state to a served model.

One step alone: pyinfra inventory.py deploys.steps.weights.apply
"""

from deploys.lease import hold_lease
from deploys.session import start_session
from deploys.steps import (
    door,
    engine,
    fabric,
    firewall,
    hf_auth,
    hf_tools,
    host,
    image,
    layout,
    link,
    node_exporter,
    preflight,
    runtime,
    weights,
)

start_session()
hold_lease()

preflight.apply()
fabric.apply()
firewall.apply()
runtime.apply()
host.apply()
layout.apply()
link.apply()
hf_tools.apply()
hf_auth.apply()
weights.apply()
image.apply()
door.apply()
node_exporter.apply()
engine.apply()
