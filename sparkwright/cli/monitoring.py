"""Writes what Prometheus and Grafana need to watch a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sparkwright.common.local_file import file_in, write_file
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.group_data import settings_of_site
from sparkwright.declared.fleet.settings import Settings
from sparkwright.declared.recipe.loader import recipe_names
from sparkwright.door.certificates import door_certificate
from sparkwright.door.key import METRICS
from sparkwright.door.keys import named_key
from sparkwright.insight.monitoring.targets import monitoring_files, targets
from sparkwright.run.inventory.groups import load


def door_chains(fleet: Fleet, known: Mapping[str, Settings]) -> Callable[[str], str | None]:
    """Return what gives the chain that a replica's door shows its clients, as PEM."""

    def chain(replica: str) -> str | None:
        found = door_certificate(fleet, replica, known[replica])
        return found.chain if found else None

    return chain


def write(inventory: Path, folder: Path) -> str:
    """Write prometheus.yml, alert rules, the doors' API key, and a dashboard; return their names.

    Raises:
        PlanError: The inventory, a setting or the file of keys is invalid.
        OSError: They cannot be written.
    """
    load(inventory)
    fleet = load_fleet(inventory, recipe_names())
    known = settings_of_site(Path.cwd(), fleet)
    doors = targets(fleet, known, door_chains(fleet, known))
    key = None
    if any(door.keyed for door in doors):
        key = named_key(fleet, "prometheus", (METRICS,))
    files = monitoring_files(doors, key)
    for name, (text, mode) in files.items():
        write_file(file_in(folder, name), text, mode)
    return f"{folder}: {', '.join(name for name in files if not name.startswith('.'))}"
