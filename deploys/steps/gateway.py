"""The gateway: one address for all replicas."""

from pathlib import Path
from typing import Any

from pyinfra import host, inventory
from pyinfra.api import HiddenValue, deploy

from deploys.certificate import chains, door_certificate, server_certificate
from deploys.facts.gateway import UNITS
from deploys.keys import api_keys, fleet_keys
from deploys.operations.firewall import firewall
from deploys.operations.gateway import gateway
from deploys.operations.messages import is_dry_run
from deploys.plan import placed
from deploys.plan.certificate import server_names, tls_settings
from deploys.plan.door import door_plan
from deploys.plan.files import Directory, Entry, ManagedFile
from deploys.plan.firewall import checked_mode, networks, port_rules
from deploys.plan.fleet_file import load_fleet
from deploys.plan.gateway import client_url, doors, needed, upstreams
from deploys.plan.gateway_files import BEHIND, DOOR_FILES, configuration, environment
from deploys.plan.gateway_names import listing, served
from deploys.plan.key import GATEWAY
from deploys.plan.recipes import recipe_names
from deploys.plan.render import unit_file
from deploys.plan.served import recipe
from deploys.steps.context import bad_input

_FILES = Path(__file__).parents[2] / "files" / "gateway"
_PROGRAMS = [*sorted(_FILES.glob("*.py")), _FILES.parent / "engine" / "notify.py"]


@deploy("Gateway")
def apply() -> None:
    """Have all replicas behind one address, on the host that the inventory names."""
    root, folder = host.data.root, f"{host.data.root}/gateway"
    record = not is_dry_run()
    with bad_input():
        fleet = load_fleet(Path(host.data.fleet), recipe_names())
        recipes = {name: recipe(name) for name in fleet.recipes}
        replicas, urls = upstreams(fleet, recipes), doors(fleet, _setting)
        keys = fleet_keys(fleet.source, record, fleet.replicas)
        tls = tls_settings(host.data.get)
        asked_by = (host.data.get("ssh_hostname"), host.data.spark, "gateway")
        own_names = server_names(tls, asked_by, host.data.bind)
        # A door's certificate may be signed by itself alone.
        trusted = chains(door_certificate(fleet, name, _setting, record) for name in urls)
        door = door_plan(
            bind=host.data.bind,
            port=needed(fleet).port,
            place=GATEWAY,
            keys=keys,
            certificate=server_certificate(tls, fleet.source, "gateway", own_names, record),
            max_body_mib=host.data.max_body_mib,
            max_connections=host.data.max_connections,
            stranger_connections=host.data.stranger_connections,
            key_requests=host.data.key_requests,
            # What is to wait waits at the door of its replica.
            hold_seconds=0,
            behind=BEHIND,
        )
        mode, sources = checked_mode(host.data.firewall), networks(host.data.firewall_from)
    requirements = (_FILES / "requirements.txt").read_text()
    door_files = door.files((_FILES.parent / "door" / "door.cfg").read_text(), folder)
    entries: list[Entry] = [
        Directory(root),
        *(placed.folder(root, name) for name in ("secrets", "state", "gateway")),
        Directory(f"{folder}/door", mode="700"),
        ManagedFile(f"{folder}/requirements.txt", requirements),
        *(ManagedFile(f"{folder}/{path.name}", path.read_text()) for path in _PROGRAMS),
        ManagedFile(f"{folder}/config.yaml", configuration(replicas, urls)),
        *(ManagedFile(f"{folder}/door/{name}", text) for name, text in DOOR_FILES.items()),
        *(unit_file(_FILES / name, root=root, trusted=bool(trusted)) for name in UNITS),
    ]
    if trusted:
        entries.append(ManagedFile(f"{folder}/doors.pem", trusted))
    gateway(
        name="Gateway",
        root=root,
        entries=entries,
        requirements=requirements,
        secrets={
            f"{root}/secrets/gateway.env": HiddenValue(environment(api_keys(fleet.source, record))),
            **{
                f"{folder}/door/{name}": text if text is None else HiddenValue(text)
                for name, text in door_files.items()
            },
        },
        door=door,
        url=client_url(fleet, secured=door.certificate is not None),
        names=listing(served(replicas)),
    )
    firewall(
        name="Gateway's port in the firewall",
        root=root,
        mode=mode,
        purposes=("gateway",),
        rules=port_rules(door.port, "gateway", sources),
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
