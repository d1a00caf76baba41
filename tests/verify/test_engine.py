from sparkwright.verify.test_engine import *  # noqa: F403
