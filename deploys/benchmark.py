"""pyinfra inventory.py deploys/benchmark.py: does it deliver? Takes 30 to 60 minutes.

Some of it: pyinfra inventory.py deploys/benchmark.py --data workloads=short,code
"""

from sparkwright.insight.benchmark import deploy as benchmark
from sparkwright.run.session import start_session

start_session()

benchmark.apply()
