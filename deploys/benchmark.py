"""pyinfra inventory.py deploys/benchmark.py: does it deliver? Takes 15 to 40 minutes.

Some of it: pyinfra inventory.py deploys/benchmark.py --data workloads=short,code
"""

from deploys.session import start_session
from deploys.steps import benchmark

start_session()

benchmark.apply()
