"""Writes what Prometheus and Grafana need to watch a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkwright.common.local_file import file_in, write_file
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.group_data import settings_of_site
from sparkwright.declared.fleet.settings import Settings
from sparkwright.door.certificates import door_certificate
from sparkwright.door.key import METRICS
from sparkwright.door.keys import named_key
from sparkwright.insight.monitoring.targets import ScrapeTarget, monitoring_files, targets
from sparkwright.run.inventory.groups import load


def doors(fleet: Fleet, known: Mapping[str, Settings]) -> list[ScrapeTarget]:
    """Return the doors of a fleet, by the settings of each replica."""

    def chain(replica: str) -> str | None:
        found = door_certificate(fleet, replica, known[replica])
        return found.chain if found else None

    return targets(fleet, known, chain)


def write(inventory: Path, folder: Path) -> str:
    """Write what Prometheus and Grafana need, with the doors' API key; return the files' names."""
    load(inventory)
    fleet = load_fleet(inventory)
    watched = doors(fleet, settings_of_site(Path.cwd(), fleet))
    keyed = any(door.keyed for door in watched)
    key = named_key(fleet, "prometheus", (METRICS,)) if keyed else None
    files = monitoring_files(watched, key)
    for name, (text, mode) in files.items():
        write_file(file_in(folder, name), text, mode)
    return f"{folder}: {', '.join(name for name in files if not name.startswith('.'))}"
