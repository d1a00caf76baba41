"""pyinfra inventory.py deploys/rollout.py: another release on many replicas, in waves.

Options: --data soak=SECONDS --data minimum_speed=TOKENS_PER_S --data force=REPLICA,…

What may disturb what serves (fabric, Docker, firewall) is left to deploys/spark.py.
"""

from sparkwright.deploy import provision
from sparkwright.engine import deploy as engine
from sparkwright.preflight import deploy as preflight
from sparkwright.rollout import deploy as rollout
from sparkwright.run.lease import hold_lease
from sparkwright.run.session import start_session
from sparkwright.run.survey import surveyed

start_session()
hold_lease()

with surveyed():
    preflight.apply()
    provision()
    engine.prepare()
    rollout.apply()
