from sparkwright.verify.test_host import *  # noqa: F403
