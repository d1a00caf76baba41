"""The gateway: one address for all replicas."""

from pathlib import Path
from typing import Any

from pyinfra import host, inventory
from pyinfra.api import HiddenValue, deploy

from deploys.certificate import chains
from deploys.keys import api_keys
from deploys.operations.firewall import firewall
from deploys.operations.gateway import gateway
from deploys.plan.door import door_plan
from deploys.plan.files import Directory, Entry, ManagedFile
from deploys.plan.firewall import checked_mode, networks, port_rules
from deploys.plan.fleet_file import load_fleet
from deploys.plan.gateway import client_url, doors, needed, upstreams
from deploys.plan.gateway_files import configuration, environment, unit
from deploys.plan.gateway_names import listing, served
from deploys.plan.recipes import recipe_names
from deploys.plan.served import recipe
from deploys.steps.context import bad_input

_FILES = Path(__file__).parents[2] / "files" / "gateway"
_PROGRAMS = [*sorted(_FILES.glob("*.py")), _FILES.parent / "engine" / "notify.py"]


@deploy("Gateway")
def apply() -> None:
    """Have all replicas behind one address, on the host that the inventory names."""
    root, folder = host.data.root, f"{host.data.root}/gateway"
    with bad_input():
        fleet = load_fleet(Path(host.data.fleet), recipe_names())
        recipes = {name: recipe(name) for name in fleet.recipes}
        replicas, urls = upstreams(fleet, recipes), doors(fleet, _setting)
        keys = api_keys(fleet.source)
        # A door's certificate may be signed by itself alone.
        trusted = chains(
            (_setting(name, "tls_certificate"), _setting(name, "tls_key")) for name in urls
        )
        # It listens and bounds as a door does.
        as_door = door_plan(
            bind=host.data.bind,
            port=needed(fleet).port,
            keys=keys,
            certificate=None,
            max_body_mib=host.data.max_body_mib,
            max_connections=host.data.max_connections,
        )
        mode, sources = checked_mode(host.data.firewall), networks(host.data.firewall_from)
    port = as_door.port
    requirements = (_FILES / "requirements.txt").read_text()
    service = unit(
        (_FILES / "gateway.service").read_text(),
        root,
        as_door.bind,
        port,
        as_door.max_body_mib,
        bool(trusted),
    )
    entries: list[Entry] = [
        Directory(root),
        Directory(f"{root}/secrets", mode="700"),
        Directory(f"{root}/state"),
        Directory(folder),
        ManagedFile(f"{folder}/requirements.txt", requirements),
        *(ManagedFile(f"{folder}/{path.name}", path.read_text()) for path in _PROGRAMS),
        ManagedFile(f"{folder}/config.yaml", configuration(replicas, urls)),
        ManagedFile("/etc/systemd/system/gateway.service", service),
    ]
    if trusted:
        entries.append(ManagedFile(f"{folder}/doors.pem", trusted))
    gateway(
        name="Gateway",
        root=root,
        entries=entries,
        requirements=requirements,
        secrets=HiddenValue(environment(keys)),
        port=port,
        url=client_url(fleet),
        names=listing(served(replicas)),
    )
    firewall(
        name="Gateway's port in the firewall",
        root=root,
        mode=mode,
        purposes=("gateway",),
        rules=port_rules(port, "gateway", sources),
    )


def _setting(replica: str, key: str) -> Any:
    """Return a value of a replica's group data, which is not that of the gateway's host."""
    own = [group for group in host.groups if group != "gateway"]
    data = {
        **inventory.get_data(),
        **inventory.get_groups_data([*own, "sparks", replica]),
        **inventory.get_override_data(),
    }
    return data[key]
