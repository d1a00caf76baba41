"""Prints OpenClaw's configuration for the gateway of an inventory.

python -m deploys.openclaw [INVENTORY] > ~/.openclaw/openclaw.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from deploys.plan.errors import PlanError
from deploys.plan.fleet_file import load_fleet
from deploys.plan.gateway import client_url, upstreams
from deploys.plan.gateway_names import served
from deploys.plan.openclaw import openclaw
from deploys.plan.recipes import load_recipe, recipe_names


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the configuration. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m deploys.openclaw",
        description="Print OpenClaw's configuration for the gateway of an inventory.",
    )
    parser.add_argument("inventory", nargs="?", type=Path, default=Path("inventory/sparks.yaml"))
    options = parser.parse_args(arguments)
    try:
        fleet = load_fleet(options.inventory, recipe_names())
        url = client_url(fleet)
        recipes = {name: load_recipe(name) for name in fleet.recipes}
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    print(openclaw(served(upstreams(fleet, recipes)), url), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
