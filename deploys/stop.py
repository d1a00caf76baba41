"""The engines stop until deploys/start.py, or a boot."""

from sparkwright.engine import deploy as engine
from sparkwright.run.session import start_session

start_session(lease=True)
engine.stop()
