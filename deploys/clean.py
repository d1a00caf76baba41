"""pyinfra inventory.py deploys/clean.py: removes releases, images and weights of no use.

It shows what, with bytes, and asks. More of them: --data keep_releases=0
"""

from sparkwright.run.lease import hold_lease
from sparkwright.run.session import start_session
from sparkwright.upkeep.cleanup import deploy as cleanup

start_session()
hold_lease()

cleanup.apply()
