"""pyinfra inventory.py deploys/clean.py: removes releases, images and weights of no use.

It shows what, with bytes, and asks. More of them: --data keep_releases=0
"""

from sparkwright.cleanup import deploy as cleanup
from sparkwright.run.lease import hold_lease
from sparkwright.run.session import start_session

start_session()
hold_lease()

cleanup.apply()
