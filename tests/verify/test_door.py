from sparkwright.verify.test_door import *  # noqa: F403
