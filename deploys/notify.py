"""Does a notice of each Spark arrive at the webhook? Sends a test."""

from sparkwright.insight.monitoring import deploy as monitoring
from sparkwright.run.session import start_session

start_session()
monitoring.test_notice(name="Test notice")
