from sparkwright.verify.test_listeners import *  # noqa: F403
