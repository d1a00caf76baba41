"""pyinfra inventory.py deploys/drift.py: what differs from what is declared? Changes nothing.

The exit status is 0 where nothing does, 2 where something does, 1 where a Spark could not be read.
For machines: --data json=PATH, or json=-
"""

from sparkwright.insight.drift import deploy as drift

drift.apply()
