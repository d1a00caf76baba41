"""Writes what Prometheus and Grafana need to watch a fleet."""

from __future__ import annotations

from pathlib import Path

from sparkwright.common.local_file import file_in, write_file
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.group_data import settings_of_site
from sparkwright.door.key import METRICS
from sparkwright.door.keys import named_key
from sparkwright.insight.monitoring.targets import monitoring_files, targets
from sparkwright.run.inventory.groups import load


def write(inventory: Path, folder: Path) -> str:
    """Write what Prometheus and Grafana need, with the doors' API key; return the files' names."""
    load(inventory)
    fleet = load_fleet(inventory)
    watched = targets(fleet, settings_of_site(Path.cwd(), fleet))
    keyed = any(door.keyed for door in watched)
    key = named_key(fleet, "prometheus", (METRICS,)) if keyed else None
    files = monitoring_files(watched, key)
    for name, (text, mode) in files.items():
        write_file(file_in(folder, name), text, mode)
    return f"{folder}: {', '.join(name for name in files if not name.startswith('.'))}"
