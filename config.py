"""pyinfra's settings for every run in this folder."""

from pyinfra import config

from sparkwright.inventory.slips import check_command_line

check_command_line()

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"
