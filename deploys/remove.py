"""pyinfra inventory.py deploys/remove.py: take away all that was put on a Spark.

Weights stay, unless `--data weights=remove` is given.
"""

from deploys.lease import hold_lease
from deploys.session import start_session
from deploys.steps import remove

start_session()
hold_lease()

remove.apply()
