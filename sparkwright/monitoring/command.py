"""Writes what Prometheus and Grafana need to watch a fleet."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import file_in, write_file
from sparkwright.door.certificates import door_certificate
from sparkwright.door.key import METRICS
from sparkwright.door.keys import named_key
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.fleet.settings import Settings, settings_of
from sparkwright.inventory.groups import load
from sparkwright.monitoring.targets import monitoring_files, targets
from sparkwright.recipe.loader import recipe_names

# An inventory file of pyinfra's, as inventory.py and inventory/lab.py are.
_INVENTORY = """\
from pathlib import Path as _Path

from sparkwright.inventory.groups import load as _load

globals().update(_load(_Path({path!r}), gateway={gateway}))
"""


def settings(fleet: Fleet) -> dict[str, Settings]:
    """Return the settings of each replica, by its name.

    pyinfra itself puts them together: all, sparks, the replica's own.

    Raises:
        PlanError: It could not, or they cannot be.
    """
    sparks = {data["spark"]: data for data in _data(fleet)}
    return {name: settings_of(sparks[each.sparks[0]]) for name, each in fleet.replicas.items()}


def gateway_settings(fleet: Fleet) -> Settings:
    """Return the settings of the gateway's host.

    Raises:
        PlanError: As `settings`.
    """
    (data,) = _data(fleet, gateway=True)
    return settings_of(data)


def _data(fleet: Fleet, gateway: bool = False) -> list[dict[str, Any]]:
    # pyinfra calls a group by its inventory file: group_data/lab.py is for inventory/lab.yaml.
    stem = {"sparks": "inventory"}.get(fleet.source.stem, fleet.source.stem)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{stem}.py"
        file.write_text(
            _INVENTORY.format(path=str(fleet.source.absolute()), gateway=gateway), "utf-8"
        )
        pyinfra = Path(sys.executable).with_name("pyinfra")
        command = [str(pyinfra), str(file), "debug-inventory", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PlanError(f"{fleet.source}: pyinfra could not read it: {done.stderr.strip()}")
    return [host["data"] for host in json.loads(done.stdout)]


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
    known = settings(fleet)
    doors = targets(fleet, known, door_chains(fleet, known))
    key = None
    if any(door.keyed for door in doors):
        key = named_key(fleet, "prometheus", (METRICS,))
    files = monitoring_files(doors, key)
    for name, (text, mode) in files.items():
        write_file(file_in(folder, name), text, mode)
    return f"{folder}: {', '.join(name for name in files if not name.startswith('.'))}"
