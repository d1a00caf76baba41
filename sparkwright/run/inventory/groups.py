"""pyinfra's hosts and groups from a YAML file such as ``inventory/sparks.yaml``."""

from __future__ import annotations

import atexit
import gc
import runpy
from pathlib import Path

import click
from pyinfra import config, state
from pyinfra.api.state import MAX_PARALLEL

from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.paths import inventory_file
from sparkwright.common.yaml import lines_of
from sparkwright.declared.fleet.file import unsupported
from sparkwright.declared.fleet.fleet import Fleet, keys_said, needed
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.run.ending import keep_screen_plain, watch_end
from sparkwright.run.failures import expect_failures, expect_silence
from sparkwright.run.inventory.data import Host, check_line
from sparkwright.run.spark import fleet_of, read_fleet

# The deploys for the gateway's host.
GATEWAY = ("deploys/gateway.py", "sparkwright.door.gateway.deploy.apply")
# The deploys that report on a fleet: a host that does not answer does not end their run.
LOOKS = {
    f"sparkwright.insight.{name}.deploy": (f"deploys/{name}.py", f"insight.{name}.deploy.apply")
    for name in ("status", "drift", "doctor")
}
REMOVAL = ("deploys/remove.py", "sparkwright.upkeep.cleanup.deploy.remove")
# The deploys that give doors their keys, or compare them.
KEYED = ("deploys/spark.py", "sparkwright.deploy.prepare", "deploys/gateway.py", "deploys/drift.py")


def load(path: Path, gateway: bool = False) -> dict[str, list[Host]]:
    """Make pyinfra's groups of an inventory file: ``sparks``, and one for each replica.

    Each host carries as data ``spark``, ``hardware``, ``fleet`` (path of the file), its ``ssh_*``
    keys, and what it serves: ``replica``, ``recipe``, ``ranks`` (the replica's Sparks, the head
    first), ``rank``, ``port``, ``api_key``, all None on an idle Spark. A Spark that is in two
    replicas has all of the first, and both names as ``replicas``.

    With `gateway`, there is the group ``gateway`` alone, of its host: this one is in no run for
    Sparks, so that neither fails because the other is off.
    """
    fleet = read_fleet(path)
    recipes = {name: load_recipe(name) for name in fleet.recipes}
    with lines_of(path):
        refuse(unsupported(fleet, recipes))
    if gateway:
        return _gateway(fleet)
    hosts = {name: _host(fleet, name) for name in fleet.sparks}
    groups = {"sparks": [*hosts.values()]}
    for name, replica in fleet.replicas.items():
        groups[name] = [hosts[spark] for spark in replica.sparks]
    # pyinfra calls its own machine @local: a group makes the Spark's name valid for --limit.
    return groups | {name: [hosts[name]] for name, spark in fleet.sparks.items() if spark.local}


def for_pyinfra(root: Path, path: Path | None = None) -> dict[str, list[Host]]:
    """Load an inventory file for pyinfra; problems end the run before a host is touched.

    pyinfra has to be started in the project, `root`. Outside of pyinfra, where Python alone runs
    the file of an inventory, there is no run to check.

    Raises:
        SystemExit: With the problems, which Python prints to stderr, and exit status 1.
    """
    is_chosen, path = path is None, path or inventory_file()
    try:
        if Path.cwd() != root:
            raise PlanError(f"found the folder {Path.cwd()}; expected the project root: cd {root}")
        if click.get_current_context(silent=True) is None:
            return load(path)
        watch_end()
        # At its end Python looks for garbage in all that pyinfra has imported: 0.15 s for nothing.
        atexit.register(gc.freeze)
        groups = load(path, gateway=_runs(GATEWAY))
        if is_chosen and path.stem != "sparks":
            # So group_data/staging.py is for inventory/staging.yaml, whatever reads it.
            groups.setdefault(path.stem, next(iter(groups.values())))
        _prepare_run(path, groups)
    except PlanError as error:
        raise SystemExit(f"\n{error}") from None
    return groups


def _prepare_run(path: Path, groups: dict[str, list[Host]]) -> None:
    """Check the command line against the inventory, and set how the run ends and looks."""
    # The first group has all hosts.
    hosts = next(iter(groups.values()))
    keep_screen_plain(next((data["spark"] for name, data in hosts if name == "@local"), None))
    if not config.PARALLEL:
        # A group does each step on all Sparks at once. pyinfra's default is by the cores of this
        # machine, which mostly waits.
        config.PARALLEL = min(len(hosts), MAX_PARALLEL)
    if look := next((module for module, deploys in LOOKS.items() if _runs(deploys)), None):
        expect_silence(state, hosts, look)
    else:
        expect_failures(state)
    fleet, parameters = fleet_of(path), click.get_current_context().params
    check_line(fleet, groups, parameters, gateway=_runs(GATEWAY), removal=_runs(REMOVAL))
    keyed = any(each.api_key is None for each in fleet.replicas.values())
    if _runs(KEYED) and fleet.keys_command and keyed:
        # It may ask a person for a passphrase: it runs while nothing else is printed.
        keys_said(fleet)


def groups_of_python(path: Path) -> dict[str, list[Host]]:
    """Return the groups of Sparks that an inventory of pyinfra's makes by `for_pyinfra`."""

    def is_spark(host: object) -> bool:
        return isinstance(host, tuple) and len(host) == 2 and "spark" in host[1]

    found = runpy.run_path(str(path)).items()
    groups = {name: value for name, value in found if isinstance(value, list) and value}
    return {name: hosts for name, hosts in groups.items() if all(map(is_spark, hosts))}


def _host(fleet: Fleet, name: str) -> Host:
    spark, replicas = fleet.sparks[name], fleet.replicas_of(name)
    return "@local" if spark.local else name, {
        **spark.connection,
        **{"spark": name, "hardware": spark.hardware, "fleet": str(fleet.source)},
        **dict.fromkeys(("replica", "recipe", "ranks", "rank", "port", "api_key")),
        **(fleet.served(name, replicas[0]) if replicas else {}),
        **({"replicas": replicas} if len(replicas) > 1 else {}),
    }


def _gateway(fleet: Fleet) -> dict[str, list[Host]]:
    gateway = needed(fleet)
    place = fleet.sparks[gateway.spark] if gateway.spark else gateway
    name = gateway.spark or "gateway"
    data = {**place.connection, "spark": gateway.spark, "fleet": str(fleet.source)}
    hosts = [("@local" if place.local else name, data)]
    groups = {"gateway": hosts}
    if gateway.spark:
        groups["sparks"] = hosts
        if place.local:
            groups[name] = hosts
    return groups


def _runs(deploys: tuple[str, ...]) -> bool:
    """Tell whether pyinfra runs one of these deploys."""
    operations = click.get_current_context().params.get("operations") or ()
    return any(operation.endswith(deploys) for operation in operations)
