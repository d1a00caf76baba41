from sparkwright.verify.test_reboot import *  # noqa: F403
