"""pyinfra inventory.py deploys/rollback.py: what served before serves again.

Of one replica: pyinfra inventory.py deploys/rollback.py --limit REPLICA
"""

from deploys.lease import hold_lease
from deploys.session import start_session
from deploys.steps import rollback

start_session()
hold_lease()

rollback.apply()
