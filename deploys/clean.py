"""Removes releases, images and weights of no use: shows what, with bytes, and asks."""

from sparkwright.run.session import start_session
from sparkwright.upkeep.cleanup import deploy as cleanup

start_session(lease=True)
cleanup.apply()
