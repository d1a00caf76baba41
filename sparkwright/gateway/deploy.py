"""The gateway: one address for all replicas."""

from pyinfra import host
from pyinfra.api import HiddenValue, deploy

from sparkwright.common import placed
from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.operations import is_dry_run
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.render import unit_file
from sparkwright.door.certificates import (
    chains,
    door_certificate,
    server_certificate,
    server_names,
    site_names,
)
from sparkwright.door.deploy import check_authority, run_keys
from sparkwright.door.door import DoorPlan
from sparkwright.door.key import GATEWAY
from sparkwright.door.keys import gateway_key
from sparkwright.firewall.firewall import port_rules
from sparkwright.firewall.operations import firewall
from sparkwright.gateway.facts import UNITS
from sparkwright.gateway.files import (
    BEHIND,
    DOOR_FILES,
    LARGEST,
    configuration,
    environment,
    reachable,
)
from sparkwright.gateway.gateway import client_url, doors, needed, upstreams
from sparkwright.gateway.names import listing, served
from sparkwright.gateway.operations import gateway
from sparkwright.release.programs import program
from sparkwright.run.host_data import data_of, settings_of_replica
from sparkwright.run.spark import fleet_of, recipe_of
from sparkwright.run.target import bad_input, target

_FILES = HOST_FILES / "gateway"


@deploy("Gateway")
def apply() -> None:
    """Have all replicas behind one address, on the host that the inventory names."""
    own, settings = target(), target().settings
    root, folder = own.root, f"{own.root}/gateway"
    record = not is_dry_run()
    with bad_input():
        fleet = fleet_of(own.fleet)
        recipes = {name: recipe_of(name) for name in fleet.recipes}
        replica_settings = {name: settings_of_replica(host, name) for name in fleet.replicas}
        replicas, urls = upstreams(fleet, recipes), doors(fleet, replica_settings)
        keys = run_keys(fleet)
        check_authority(fleet, settings)
        own_key = gateway_key(keys)
        assert own_key
        asked_by = (data_of(host).get("ssh_hostname"), own.spark, "gateway")
        own_names, site = server_names(settings, asked_by), site_names(settings, fleet)
        # A door's certificate may be signed by itself alone.
        trusted = chains(
            door_certificate(fleet, name, replica_settings[name], record) for name in urls
        )
        most = min(settings.max_body_mib, LARGEST)
        door = DoorPlan(
            settings.model_copy(update={"max_body_mib": most}),
            port=needed(fleet).port,
            place=GATEWAY,
            keys=keys,
            certificate=server_certificate(
                settings, fleet.source, "gateway", own_names, record, site
            ),
            # What is to wait waits at the door of its replica.
            hold_seconds=0,
            behind=BEHIND,
        )
    requirements = (_FILES / "requirements.txt").read_text("utf-8")
    door_files = door.files((HOST_FILES / "door" / "door.cfg").read_text("utf-8"), folder)
    entries: list[Entry] = [
        Directory(root),
        *(placed.folder(root, name) for name in ("secrets", "state", "gateway")),
        Directory(f"{folder}/door", mode="700"),
        ManagedFile(f"{folder}/requirements.txt", requirements),
        ManagedFile(f"{folder}/gateway", program("host.gateway.gateway")),
        ManagedFile(f"{folder}/config.yaml", configuration(replicas, urls)),
        *(ManagedFile(f"{folder}/door/{name}", text) for name, text in DOOR_FILES.items()),
        *(
            unit_file(
                _FILES / name, root=root, trusted=bool(trusted), doors=reachable(urls.values())
            )
            for name in UNITS
        ),
    ]
    if trusted:
        entries.append(ManagedFile(f"{folder}/doors.pem", trusted))
    gateway(
        name="Gateway",
        root=root,
        entries=entries,
        requirements=requirements,
        secrets={
            f"{root}/secrets/gateway.env": HiddenValue(environment(own_key.secret)),
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
        mode=settings.firewall,
        purposes=("gateway",),
        rules=port_rules(door.port, "gateway", settings.firewall_from),
    )
