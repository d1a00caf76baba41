"""What served before serves again; of one replica: --limit REPLICA."""

from sparkwright.run.session import start_session
from sparkwright.upkeep.rollback import deploy as rollback

start_session(lease=True)
rollback.apply()
