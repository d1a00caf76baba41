"""Does it deliver? 30 to 60 minutes; some of it: --data workloads=short,code."""

from sparkwright.insight.benchmark import deploy as benchmark
from sparkwright.run.session import start_session

start_session()
benchmark.apply()
