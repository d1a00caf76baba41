"""What deploys/stop.py has stopped serves again."""

from sparkwright.engine import deploy as engine
from sparkwright.run.session import start_session

start_session(lease=True)
engine.start()
