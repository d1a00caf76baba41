"""pyinfra inventory.py deploys/rollout.py: another release on many replicas, in waves.

Options: --data soak=SECONDS --data minimum_speed=TOKENS_PER_S --data force=REPLICA,…

What may disturb what serves (fabric, Docker, firewall) is left to deploys/spark.py.
"""

from deploys.lease import hold_lease
from deploys.session import start_session
from deploys.steps import (
    door,
    engine,
    hf_auth,
    hf_tools,
    host,
    image,
    layout,
    link,
    node_exporter,
    preflight,
    rollout,
    weights,
)

start_session()
hold_lease()

preflight.apply()
host.apply()
layout.apply()
link.apply()
hf_tools.apply()
hf_auth.apply()
weights.apply()
image.apply()
door.apply()
node_exporter.apply()
engine.prepare()
rollout.apply()
