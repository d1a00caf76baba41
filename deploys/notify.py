"""Does its owner's webhook hear of a Spark? Sends a test from each."""

from sparkwright.insight.monitoring import deploy as monitoring
from sparkwright.run.session import start_session

start_session()
monitoring.notice_test(name="Test notice")
