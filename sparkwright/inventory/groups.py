"""pyinfra's hosts and groups from a YAML file such as ``inventory/sparks.yaml``."""

from __future__ import annotations

import atexit
import gc
import sys
from pathlib import Path
from typing import Any

import click
from pyinfra import config, state
from pyinfra.api.state import MAX_PARALLEL

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.paths import inventory_file
from sparkwright.common.terminal import wrapped
from sparkwright.common.yaml import lines_of
from sparkwright.door.keys import fleet_keys
from sparkwright.fleet.check import unsupported
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.gateway.gateway import clashes, needed
from sparkwright.inventory.data import check_data
from sparkwright.inventory.logins import check_logins
from sparkwright.inventory.selection import Host, choose_replicas, selected
from sparkwright.recipe.loader import load_recipe, recipe_names
from sparkwright.run.ending import watch_end
from sparkwright.run.failures import expect_failures, expect_silence
from sparkwright.run.last_resort import keep_tracebacks_off_screen
from sparkwright.run.screen import keep_screen_plain
from sparkwright.run.spark import fleet_of

# The deploys for the gateway's host.
GATEWAY = ("deploys/gateway.py", "sparkwright.gateway.deploy.apply")
# The deploys that report on a fleet: a host that does not answer does not end their run.
LOOKS = {
    "sparkwright.status.deploy": ("deploys/status.py", "sparkwright.status.deploy.apply"),
    "sparkwright.drift.deploy": ("deploys/drift.py", "sparkwright.drift.deploy.apply"),
}
REMOVAL = ("deploys/remove.py", "sparkwright.cleanup.deploy.remove")
# The deploys that give doors their keys, or compare them.
KEYED = ("deploys/spark.py", "sparkwright.deploy.prepare", "deploys/gateway.py", "deploys/drift.py")


def load(path: Path, gateway: bool = False) -> dict[str, list[Host]]:
    """Make pyinfra's groups of an inventory file: ``sparks``, and one for each replica.

    Each host carries as data ``spark``, ``hardware``, ``fleet`` (path of the file), its
    ``ssh_*`` keys, and what it serves: ``replica``, ``recipe``,
    ``ranks`` (the Sparks of the replica, the head first), ``rank``, ``port``,
    ``api_key``, all None on an idle Spark. A Spark that is in two replicas has all of the first,
    and both names as ``replicas``.

    The host of the gateway is in no run for Sparks, so that neither fails because the other is off.

    Args:
        path: The YAML file.
        gateway: Make the group ``gateway`` instead, with the gateway's host alone.

    Raises:
        PlanError: There is no such file, or all its problems.
    """
    fleet = load_fleet(path, recipe_names())
    recipes = {name: load_recipe(name) for name in fleet.recipes}
    with lines_of(path):
        if problems := [*unsupported(fleet, recipes), *clashes(fleet, recipes)]:
            raise PlanError(*problems)
    if gateway:
        return _gateway(fleet)
    hosts = {name: _host(fleet, name) for name in fleet.sparks}
    groups = {"sparks": list(hosts.values())}
    groups |= {
        name: [hosts[spark] for spark in replica.sparks] for name, replica in fleet.replicas.items()
    }
    # pyinfra calls its own machine @local: a group makes the Spark's name valid for --limit.
    groups |= {name: [hosts[name]] for name, spark in fleet.sparks.items() if spark.local}
    return groups


def for_pyinfra(root: Path, path: Path | None = None) -> dict[str, list[Host]]:
    """Load an inventory file for pyinfra; problems end the run before a host is touched.

    Args:
        root: The project: the folder of `group_data`, in which pyinfra has to be started.
        path: The YAML file, relative to it; None for that of `inventory_file`.

    Raises:
        SystemExit: With the problems, which Python prints to stderr, and exit status 1.
    """
    try:
        if click.get_current_context(silent=True) is None:
            raise PlanError(f"found no run of pyinfra; expected: {next_line('apply')}")
        if Path.cwd() != root:
            raise PlanError(f"found the folder {Path.cwd()}; expected the project root: cd {root}")
        watch_end()
        keep_tracebacks_off_screen()
        # At its end Python looks for garbage in all that pyinfra has imported: 0.15 s for nothing.
        atexit.register(gc.freeze)
        is_chosen, path = path is None, path or inventory_file()
        groups = load(path, gateway=_runs(GATEWAY))
        # The first group has them all.
        hosts = next(iter(groups.values()))
        keep_screen_plain(next((data["spark"] for name, data in hosts if name == "@local"), None))
        if not config.PARALLEL:
            # A pair does each step on both Sparks at once. pyinfra's default is by the
            # cores of this machine, which mostly waits.
            config.PARALLEL = min(len(hosts), MAX_PARALLEL)
        look = next((module for module, deploys in LOOKS.items() if _runs(deploys)), None)
        if look:
            expect_silence(state, hosts, look)
        else:
            expect_failures(state)
        _check_order()
        # pyinfra makes a group of its own of all hosts, by the name of its inventory file.
        file_group = "inventory" if is_chosen else path.stem
        if is_chosen and path.stem != "sparks":
            # So group_data/staging.py is for inventory/staging.yaml, whatever reads it.
            groups.setdefault(path.stem, hosts)
        check_data(groups, file_group, path, removal=_runs(REMOVAL))
        chosen = selected(groups, _parameter("limit") or (), _parameter("exclude") or ())
        choose_replicas(groups, _parameter("limit") or ())
        if _parameter("operations") != ("debug-inventory",):
            check_logins(path, chosen, _parameter("ssh_key"), _parameter("ssh_key_password"))
        if _runs(KEYED):
            _ask_for_keys(fleet_of(path))
    except PlanError as error:
        raise SystemExit(f"\n{wrapped(str(error), sys.stderr)}") from None
    return groups


def _ask_for_keys(fleet: Fleet) -> None:
    """Run the command that gives the API keys, if there is one, while nothing else is printed.

    It may ask a person for a passphrase. The run has its output from then on.
    """
    if fleet.keys_command and any(each.api_key is None for each in fleet.replicas.values()):
        fleet_keys(fleet)


def _host(fleet: Fleet, name: str) -> Host:
    spark, replicas = fleet.sparks[name], fleet.replicas_of(name)
    replica_name = replicas[0] if replicas else None
    replica = fleet.replicas[replica_name] if replica_name else None
    return "@local" if spark.local else name, {
        **spark.connection,
        "spark": name,
        "hardware": spark.hardware,
        "fleet": str(fleet.source),
        "replica": replica_name,
        "recipe": replica and replica.recipe,
        "ranks": replica and replica.sparks,
        "rank": replica and replica.sparks.index(name),
        "port": replica and replica.port,
        "api_key": replica and replica.api_key,
        **({"replicas": replicas} if len(replicas) > 1 else {}),
    }


def _gateway(fleet: Fleet) -> dict[str, list[Host]]:
    gateway = needed(fleet)
    place = fleet.sparks[gateway.spark] if gateway.spark else gateway
    name = gateway.spark or "gateway"
    data = {
        **place.connection,
        "spark": gateway.spark,
        "fleet": str(fleet.source),
    }
    hosts = [("@local" if place.local else name, data)]
    groups = {"gateway": hosts}
    if gateway.spark:
        groups["sparks"] = hosts
    if gateway.spark and place.local:
        groups[name] = hosts
    return groups


def _runs(deploys: tuple[str, ...]) -> bool:
    """Tell whether pyinfra runs one of these deploys."""
    return any(operation.endswith(deploys) for operation in _parameter("operations") or ())


def _parameter(name: str) -> Any:
    """Return a parameter of pyinfra's command line; None if it was not given."""
    context = click.get_current_context(silent=True)
    return context.params.get(name) if context else None


def _check_order() -> None:
    """Refuse ``--no-wait``: a failure would not stop other Sparks, and the exit status be 0."""
    if _parameter("no_wait"):
        raise PlanError(
            "found --no-wait; expected it left out: where a step fails on one Spark, the others "
            "would go on, and the exit status be 0. --serial takes one Spark after the other"
        )
