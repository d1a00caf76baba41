from sparkwright.verify.test_pair import *  # noqa: F403
