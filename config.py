"""pyinfra's settings for every run in this folder."""

from pathlib import Path

import click
from pyinfra import config

_inventory = click.get_current_context().params["inventory"]
if _inventory.endswith(".py") and not Path(_inventory).exists():
    # pyinfra would take it for a host's name, do nothing, and exit with 0.
    raise SystemExit(f"\nfound no file {_inventory}; expected an inventory, such as inventory.py")

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"
