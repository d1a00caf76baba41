"""pyinfra's hosts and groups from a YAML file such as ``inventory/sparks.yaml``."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click

from deploys.plan.errors import PlanError
from deploys.plan.fleet import Fleet, load_fleet, unsupported
from deploys.plan.recipes import load_recipe, recipe_names
from deploys.plan.schema import nearest

ROOT = Path(__file__).parents[1]

Host = tuple[str, dict[str, Any]]


def load(path: Path) -> dict[str, list[Host]]:
    """Make pyinfra's groups of an inventory file: ``sparks``, and one for each replica.

    Each host carries as data ``spark``, ``hardware``, ``fleet`` (path of the file), its ``ssh_*``
    keys, and what it serves: ``replica``, ``recipe``, ``ranks`` (the Sparks of the replica, the
    head first), ``rank``, ``port``, ``api_key``, all None on an idle Spark.

    Args:
        path: The YAML file.

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
    if problems := unsupported(fleet, recipes):
        raise PlanError(*problems)
    hosts = {name: _host(fleet, name) for name in fleet.sparks}
    groups = {"sparks": list(hosts.values())}
    groups |= {
        name: [hosts[spark] for spark in replica.sparks] for name, replica in fleet.replicas.items()
    }
    # pyinfra calls its own machine @local: a group keeps the Spark's name good for --limit.
    groups |= {name: [hosts[name]] for name, spark in fleet.sparks.items() if spark.local}
    return groups


def for_pyinfra(path: Path) -> dict[str, list[Host]]:
    """`load` for an inventory file of pyinfra's: problems end the run before a host is touched.

    Args:
        path: The YAML file, relative to the project root.

    Raises:
        SystemExit: With the problems, which Python prints to stderr, and exit status 1.
    """
    try:
        if Path.cwd() != ROOT:
            raise PlanError(f"found the folder {Path.cwd()}; expected the project root: cd {ROOT}")
        groups = load(path)
        _check_limit(groups, file_group={"sparks.yaml": "inventory"}.get(path.name, path.stem))
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


def _check_limit(groups: dict[str, list[Host]], file_group: str) -> None:
    """Refuse a ``--limit`` that matches nothing: pyinfra would do nothing, and exit with 0."""
    context = click.get_current_context(silent=True)
    hosts = [name for name, _ in groups["sparks"]]
    known = {*groups, *hosts, file_group}
    names = known - {file_group}
    problems = [
        f"--limit: found {pattern}, which matches nothing; expected {nearest(pattern, names)}"
        for pattern in (context.params.get("limit") or () if context else ())
        if pattern not in known and not any(fnmatch(host, pattern) for host in hosts)
    ]
    if problems:
        raise PlanError(*problems)
