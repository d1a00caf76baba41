from sparkwright.verify.test_tools import *  # noqa: F403
