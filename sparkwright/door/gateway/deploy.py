"""The gateway on its host: what a run reads there, and what it does."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, HiddenValue, Host, State, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.artifacts.jobs.deploy import Environment, virtual_environment
from sparkwright.common import placed
from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.operations import failing, is_dry_run, notice
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.render import unit_file
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.fleet import needed
from sparkwright.declared.fleet.group_data import settings_of_site
from sparkwright.door import certificates
from sparkwright.door.deploy import check_authority, run_keys
from sparkwright.door.door import DoorPlan, ask_door
from sparkwright.door.gateway.gateway import (
    BEHIND,
    DOOR_FILES,
    LARGEST,
    client_url,
    configuration,
    doors,
    listing,
    reachable,
    served,
    upstreams,
)
from sparkwright.door.key import GATEWAY
from sparkwright.door.keys import gateway_key
from sparkwright.door.operations import haproxy, warn
from sparkwright.machine.firewall.deploy import firewall
from sparkwright.machine.firewall.deploy import reads as firewall_reads
from sparkwright.machine.firewall.firewall import port_rules
from sparkwright.machine.host.operations.files import managed_files, secret_file, unit_state
from sparkwright.machine.host.state import Placed, ask_placed
from sparkwright.plan.release.programs import program
from sparkwright.run.spark import fleet_of, recipe_of
from sparkwright.run.state import expect, read
from sparkwright.run.target import Target, bad_input, target

SOCKET, UNIT, DOOR = "gateway.socket", "gateway.service", "gateway-door.service"
# In the order of their start.
UNITS = (SOCKET, UNIT, DOOR)
_FILES = HOST_FILES / "door" / "gateway"


@operation()
def gateway(
    root: str,
    entries: Sequence[Entry],
    requirements: str,
    secrets: Mapping[str, HiddenValue | None],
    door: DoorPlan,
    says: str,
) -> Generator[PyinfraCommand]:
    """Run the gateway with these files, and show which replicas it reaches.

    Args:
        requirements: The packages that it runs with, each with its hashes.
        secrets: The files with its key and of its door; None for one that must be absent.
        door: Where it cannot listen, the host fails before any change.
        says: A sentence about what clients ask, for people.
    """
    folder = f"{root}/gateway"
    warn(door)
    files = [entry.path for entry in entries if not isinstance(entry, Directory)]
    state = read(host, ask_door(root, door.settings.bind, door.port, DOOR))
    units = [unit_state(SOCKET), *(unit_state(each, [*files, *secrets]) for each in (UNIT, DOOR))]
    if why := door.obstacle(state):
        yield failing(why)
        return
    changes = list(managed_files._inner(entries=entries))
    for path, content in secrets.items():
        changes += secret_file._inner(path=path, content=content)
    changes += virtual_environment._inner(
        path=f"{folder}/env", requirements=f"{folder}/requirements.txt", text=requirements
    )
    yield from haproxy(state)
    yield from changes
    if not all(unit.enabled for unit in units):
        yield StringCommand("systemctl daemon-reload && systemctl enable --quiet", *UNITS)
    if changes or not all(unit.active and not unit.outdated for unit in units):
        # Five failures in a row would otherwise forbid a start by hand, too.
        yield StringCommand(
            f"systemctl daemon-reload && systemctl reset-failed {UNIT} 2>/dev/null; "
            f"haproxy -c -q -C {folder}/door -f door.cfg -f engines.cfg && "
            f"systemctl stop {' '.join(reversed(UNITS))} && "
            f"systemctl start {' '.join(UNITS)} || "
            f"{{ journalctl --unit {UNIT} --unit {DOOR}",
            "--lines 15 --no-pager --output cat >&2; exit 1; }",
        )
        yield FunctionCommand(_report, (root, says), {})
    else:
        notice(_summary(read(host, ask_placed(root)), says), color="green")


def _report(state: State, host: Host, root: str, says: str) -> bool:
    now = read(host, ask_placed(root))
    host.log(plain(_summary(now, says)))
    return now.unit(UNIT).active


def _summary(now: Placed, says: str) -> str:
    status = now.units[UNIT].status if UNIT in now.units else ""
    return f"{says} Replicas {status}."


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of the gateway's host."""
    yield ask_placed(own.root)
    yield from firewall_reads(own)
    yield Environment.ask(path=f"{own.root}/gateway/env")
    yield ask_door(own.root, own.settings.bind, needed(fleet_of(own.fleet)).port, DOOR)


@deploy("Gateway")
def apply() -> None:
    """Have all replicas behind one address, on the host that the inventory names."""
    own, settings = target(), target().settings
    root, folder = own.root, f"{own.root}/gateway"
    expect(own.host, lambda: reads(own))
    record = not is_dry_run()
    with bad_input():
        fleet = fleet_of(own.fleet)
        recipes = {name: recipe_of(name) for name in fleet.recipes}
        replica_settings = settings_of_site(fleet, host.inventory.get_override_data())
        replicas, urls = upstreams(fleet, recipes), doors(fleet, replica_settings)
        keys = run_keys(fleet)
        check_authority(fleet, settings)
        own_names = (host.data.dict().get("ssh_hostname"), own.spark, "gateway")
        certificate = certificates.server_certificate(fleet, settings, "gateway", own_names, record)
        # A door's certificate may be signed by itself alone.
        trusted = certificates.chains(
            certificates.door_certificate(fleet, name, replica_settings[name], record)
            for name in urls
        )
        most = min(settings.max_body_mib, LARGEST)
        door = DoorPlan(
            settings.model_copy(update={"max_body_mib": most}),
            port=needed(fleet).port,
            place=GATEWAY,
            keys=keys,
            certificate=certificate,
            # What is to wait waits at the door of its replica.
            hold_seconds=0,
            behind=BEHIND,
        )
    requirements = (_FILES / "requirements.txt").read_text("utf-8")
    values = {"root": root, "doors": reachable(urls.values())}
    own_key = gateway_key(keys)
    assert own_key
    texts = {f"{folder}/door/{name}": text for name, text in door.files(folder).items()}
    texts[f"{root}/secrets/gateway.key"] = f"{own_key.secret}\n"
    secrets = {path: None if text is None else HiddenValue(text) for path, text in texts.items()}
    names = listing(served(replicas))
    gateway(
        name="Gateway",
        root=root,
        entries=[
            Directory(root),
            *(placed.folder(root, name) for name in ("secrets", "state", "gateway")),
            Directory(f"{folder}/door", mode="700"),
            ManagedFile(f"{folder}/requirements.txt", requirements),
            ManagedFile(f"{folder}/gateway", program("host.door.gateway.gateway")),
            ManagedFile(f"{folder}/config.json", configuration(replicas, urls, trusted, keys)),
            *(ManagedFile(f"{folder}/door/{name}", text) for name, text in DOOR_FILES.items()),
            *(unit_file(_FILES / name, **values) for name in UNITS),
        ],
        requirements=requirements,
        secrets=secrets,
        door=door,
        says=f"The gateway answers at {client_url(fleet, settings)}/v1. Names: {names}.",
    )
    rules = port_rules(door.port, "gateway", settings.firewall_from)
    firewall(name="Gateway's port in the firewall", purposes=("gateway",), rules=rules)
