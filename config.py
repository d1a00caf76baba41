"""pyinfra's settings for every run in this folder."""

from pyinfra import config

from sparkwright.run.ending import watch_end

watch_end()

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"
