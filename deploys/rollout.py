"""pyinfra inventory.py deploys/rollout.py: another release on many replicas, in waves.

Options: --data soak=SECONDS --data minimum_speed=TOKENS_PER_S --data force=REPLICA,…

What may disturb what serves (fabric, Docker, firewall) is left to deploys/spark.py.
"""

from deploys.lease import hold_lease
from deploys.session import start_session
from deploys.steps import engine, preflight, provision, rollout

start_session()
hold_lease()

preflight.apply()
provision.apply()
engine.prepare()
rollout.apply()
