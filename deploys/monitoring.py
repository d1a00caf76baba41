"""Writes what Prometheus and Grafana need to watch a fleet.

    python -m deploys.monitoring [INVENTORY] [--out FOLDER]

FOLDER gets prometheus.yml, alert rules, the API key that the doors ask for, and a dashboard.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deploys.certificate import door_certificate
from deploys.keys import named_key
from deploys.plan.errors import PlanError
from deploys.plan.fleet import Fleet
from deploys.plan.fleet_file import load_fleet
from deploys.plan.key import METRICS
from deploys.plan.local_file import file_in, write_file
from deploys.plan.monitoring import DASHBOARD_FILE, RULES_FILE, monitoring_files, targets
from deploys.plan.recipes import recipe_names
from inventory.sparks import load

_ROOT = Path(__file__).parents[1]
_FILES = _ROOT / "files" / "monitoring"
# An inventory file of pyinfra's, as inventory.py and inventory/lab.py are.
_INVENTORY = """\
from pathlib import Path as _Path

from inventory.sparks import load as _load

globals().update(_load(_Path({path!r}), gateway={gateway}))
"""


def settings(fleet: Fleet) -> Callable[[str, str], Any]:
    """Return what gives a replica's group data, by the names of replica and value.

    pyinfra itself puts them together: all, sparks, the replica's own.

    Raises:
        PlanError: It could not.
    """
    sparks = {data["spark"]: data for data in _data(fleet)}
    return lambda replica, name: sparks[fleet.replicas[replica].sparks[0]].get(name)


def gateway_settings(fleet: Fleet) -> dict[str, Any]:
    """Return the group data of the gateway's host.

    Raises:
        PlanError: pyinfra could not put them together.
    """
    (data,) = _data(fleet, gateway=True)
    return data


def _data(fleet: Fleet, gateway: bool = False) -> list[dict[str, Any]]:
    # pyinfra calls a group by its inventory file: group_data/lab.py is for inventory/lab.py.
    stem = {"sparks": "inventory"}.get(fleet.source.stem, fleet.source.stem)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{stem}.py"
        file.write_text(_INVENTORY.format(path=str(fleet.source.absolute()), gateway=gateway))
        pyinfra = Path(sys.executable).with_name("pyinfra")
        command = [str(pyinfra), str(file), "debug-inventory", "--json"]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PlanError(f"{fleet.source}: pyinfra could not read it: {done.stderr.strip()}")
    return [host["data"] for host in json.loads(done.stdout)]


def door_chains(fleet: Fleet, setting: Callable[[str, str], Any]) -> Callable[[str], str | None]:
    """Return what gives the chain that a replica's door shows its clients, as PEM, by its name.

    Args:
        fleet: The fleet.
        setting: As `settings` returned it.
    """

    def chain(replica: str) -> str | None:
        found = door_certificate(fleet, replica, setting)
        return found.chain if found else None

    return chain


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files and say where they are. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m deploys.monitoring",
        description="Write what Prometheus and Grafana need to watch a fleet.",
    )
    parser.add_argument("inventory", nargs="?", type=Path, default=Path("inventory/sparks.yaml"))
    parser.add_argument("--out", type=Path, default=Path("monitoring"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        load(options.inventory)
        fleet = load_fleet(options.inventory, recipe_names())
        setting = settings(fleet)
        doors = targets(fleet, setting, door_chains(fleet, setting))
        key = None
        if any(door.keyed for door in doors):
            key = named_key(fleet.source, "prometheus", (METRICS,))
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    rules, dashboard = ((_FILES / name).read_text() for name in (RULES_FILE, DASHBOARD_FILE))
    files = monitoring_files(doors, key, rules, dashboard)
    for name, (text, mode) in files.items():
        write_file(file_in(options.out, name), text, mode)
    print(f"{options.out}: {', '.join(name for name in files if not name.startswith('.'))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
