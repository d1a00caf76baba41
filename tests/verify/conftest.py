"""`pytest tests/verify` runs the tests of sparkwright.verify, with their options and fixtures."""

from sparkwright.verify.plugin import *  # noqa: F403
