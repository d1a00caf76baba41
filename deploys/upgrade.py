"""Kernel, driver, toolkit and Docker that runs hold become new, one replica at a time."""

from sparkwright.run.lease import hold_lease
from sparkwright.run.session import start_session
from sparkwright.upkeep.upgrade import deploy as upgrade

start_session()
hold_lease()
upgrade.apply()
