"""Where things are: what travels to a Spark, and the inventory of a site."""

import os
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
# Beside the package in a checkout; within it, once it is installed.
FILES = PACKAGE / "files" if (PACKAGE / "files").is_dir() else PACKAGE.parent / "files"
# What goes onto a host, a folder a subject: units, templates, and the programs of a Spark.
HOST_FILES = FILES / "host"
# What vLLM loads in the engine of a group, as Python finds it: a module, and that it is a plugin.
PLUGIN = FILES / "plugin"

# The environment's name of the inventory, such as "staging" for inventory/staging.yaml.
INVENTORY_VARIABLE = "SPARKWRIGHT_INVENTORY"


def inventory_file() -> Path:
    """Return the inventory file that a command uses, relative to the site's folder."""
    return Path("inventory", f"{os.environ.get(INVENTORY_VARIABLE) or 'sparks'}.yaml")
