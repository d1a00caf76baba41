from sparkwright.verify.test_pooling import *  # noqa: F403
