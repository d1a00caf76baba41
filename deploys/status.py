"""What does the fleet do right now? Again every 5 s: --data watch=5."""

from sparkwright.insight.status import deploy as status

status.apply()
