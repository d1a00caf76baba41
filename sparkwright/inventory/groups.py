"""pyinfra's hosts and groups from a YAML file such as ``inventory/sparks.yaml``."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import click
from pyinfra import state

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import nearest
from sparkwright.fleet.check import unsupported
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.gateway.gateway import clashes, needed
from sparkwright.inventory.data import Host, check_data
from sparkwright.recipe.loader import load_recipe, recipe_names
from sparkwright.run.failures import expect_failures
from sparkwright.run.screen import keep_screen_plain

# What pyinfra may be told to run for the gateway.
GATEWAY = ("deploys/gateway.py", "sparkwright.gateway.deploy.apply")
# Looks at a fleet: what does not answer is told, and ends no run.
LOOKS = (
    "deploys/status.py",
    "sparkwright.status.deploy.apply",
    "deploys/drift.py",
    "sparkwright.drift.deploy.apply",
)
REMOVAL = ("deploys/remove.py", "sparkwright.cleanup.deploy.remove")


def load(path: Path, gateway: bool = False) -> dict[str, list[Host]]:
    """Make pyinfra's groups of an inventory file: ``sparks``, and one for each replica.

    Each host carries as data ``spark``, ``hardware``, ``fleet`` (path of the file), its ``ssh_*``
    keys, and what it serves: ``replica``, ``recipe``, ``ranks`` (the Sparks of the replica, the
    head first), ``rank``, ``port``, ``api_key``, all None on an idle Spark.

    The host of the gateway is a world of its own: a Spark that is off does not hinder it, and a
    host of its own is none of the Sparks' business.

    Args:
        path: The YAML file.
        gateway: Make the group ``gateway`` instead, which holds the gateway's host alone.

    Raises:
        PlanError: There is no such file, or all that is wrong with it.
    """
    if not path.exists():
        raise PlanError(
            f"{path}: found no such file; expected your Sparks in it: "
            f"cp inventory/examples/one.yaml {path}, then write their addresses there"
        )
    fleet = load_fleet(path, recipe_names())
    recipes = {name: load_recipe(name) for name in fleet.recipes}
    if problems := [*unsupported(fleet, recipes), *clashes(fleet, recipes)]:
        raise PlanError(*problems)
    if gateway:
        return _gateway(fleet)
    hosts = {name: _host(fleet, name) for name in fleet.sparks}
    groups = {"sparks": list(hosts.values())}
    groups |= {
        name: [hosts[spark] for spark in replica.sparks] for name, replica in fleet.replicas.items()
    }
    # pyinfra calls its own machine @local: a group keeps the Spark's name good for --limit.
    groups |= {name: [hosts[name]] for name, spark in fleet.sparks.items() if spark.local}
    return groups


def for_pyinfra(root: Path, path: Path) -> dict[str, list[Host]]:
    """`load` for an inventory file of pyinfra's: problems end the run before a host is touched.

    Args:
        root: The project: the folder of `group_data`, in which pyinfra has to be started.
        path: The YAML file, relative to it.

    Raises:
        SystemExit: With the problems, which Python prints to stderr, and exit status 1.
    """
    try:
        if Path.cwd() != root:
            raise PlanError(f"found the folder {Path.cwd()}; expected the project root: cd {root}")
        groups = load(path, gateway=_runs(GATEWAY))
        keep_screen_plain()
        if _runs(LOOKS):
            state.should_raise_failed_hosts = lambda _: False
        else:
            expect_failures(state)
        _check_order()
        file_group = {"sparks.yaml": "inventory"}.get(path.name, path.stem)
        check_data(groups, file_group, removal=_runs(REMOVAL))
        _check_limit(groups, file_group)
    except PlanError as error:
        raise SystemExit(f"\n{error}") from None
    return groups


def _host(fleet: Fleet, name: str) -> Host:
    spark, assignment = fleet.sparks[name], fleet.assignment(name)
    return "@local" if spark.local else name, {
        **spark.connection,
        "spark": name,
        "hardware": spark.hardware,
        "fleet": str(fleet.source),
        "replica": assignment and assignment.replica,
        "recipe": assignment and assignment.recipe,
        "ranks": assignment and list(assignment.ranks),
        "rank": assignment and assignment.rank,
        "port": assignment and assignment.port,
        "api_key": assignment and assignment.api_key,
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
    if gateway.spark and place.local:
        groups[name] = hosts
    return groups


def _runs(deploys: tuple[str, ...]) -> bool:
    """Tell whether pyinfra was told to run one of these."""
    context = click.get_current_context(silent=True)
    operations = context.params.get("operations") if context else None
    return any(operation.endswith(deploys) for operation in operations or ())


def _check_order() -> None:
    """Refuse ``--no-wait``: what fails would stop no other Spark, and the exit status be 0."""
    context = click.get_current_context(silent=True)
    if context and context.params.get("no_wait"):
        raise PlanError(
            "found --no-wait; expected it left out: where a step fails on one Spark, the others "
            "would go on, and the exit status be 0. --serial takes one Spark after the other"
        )


def _check_limit(groups: dict[str, list[Host]], file_group: str) -> None:
    """Refuse a ``--limit`` that matches nothing: pyinfra would do nothing, and exit with 0."""
    context = click.get_current_context(silent=True)
    hosts = [name for group in groups.values() for name, _ in group]
    known = {*groups, *hosts, file_group}
    names = known - {file_group}
    problems = [
        f"--limit: found {pattern}, which matches nothing; expected {nearest(pattern, names)}"
        for pattern in (context.params.get("limit") or () if context else ())
        if pattern not in known and not any(fnmatch(host, pattern) for host in hosts)
    ]
    if problems:
        raise PlanError(*problems)
