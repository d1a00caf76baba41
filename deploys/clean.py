"""pyinfra inventory.py deploys/clean.py: removes releases, images and weights that nobody needs.

It shows what, with bytes, and asks. More of them: --data keep_releases=0
"""

from deploys.lease import hold_lease
from deploys.session import start_session
from deploys.steps import clean

start_session()
hold_lease()

clean.apply()
