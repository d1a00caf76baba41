"""Reads an inventory file such as ``inventory/sparks.yaml``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.schema import Model, Name, parse
from sparkwright.common.yaml import lines_of
from sparkwright.declared.fleet.check import problems
from sparkwright.declared.fleet.fleet import Fleet, FleetSource, Gateway, Replica, Spark, Word
from sparkwright.declared.recipe.loader import is_path


class _File(Model):
    sparks: dict[Name, Spark] = Field(
        min_length=1,
        description="at least one Spark, such as spark-a: {ssh_hostname: 192.168.1.20}",
    )
    replicas: dict[Name, Replica] = Field(
        default_factory=dict,
        description="a mapping of replicas, such as chat: {recipe: …, sparks: [spark-a]}",
    )
    gateway: Gateway | None = Field(
        default=None, description="a mapping such as {spark: spark-a, port: 4000}"
    )
    source: FleetSource | None = Field(
        default=None, description="a mapping such as {bundle: ../bundle}"
    )
    keys_command: list[Word] | None = Field(
        default=None,
        min_length=1,
        description="a list of words, such as [pass, show, sparkwright/sparks]",
    )


def load_fleet(path: Path) -> Fleet:
    """Read an inventory file, and check all but the content of recipes."""
    if not path.exists():
        example = Path("inventory/examples/one.yaml")
        raise PlanError(
            f"{path}: found no such file; expected your Sparks in it: "
            + (f"cp {example} {path}, then write" if example.exists() else "write")
            + " their addresses there"
        )
    with lines_of(path):
        file = parse(_File, yaml.load(path), str(path))
        replicas = {name: _located(replica, path.parent) for name, replica in file.replicas.items()}
        fleet = Fleet(
            path,
            file.sparks,
            replicas,
            file.gateway,
            tuple(file.keys_command or ()),
            _brought(file.source, path.parent) if file.source else None,
        )
        if found := problems(fleet):
            raise PlanError(*found)
    return fleet


def _brought(source: FleetSource, folder: Path) -> FleetSource:
    place = folder / Path(source.bundle).expanduser()
    return source.model_copy(update={"bundle": str(place)})


def _located(replica: Replica, folder: Path) -> Replica:
    if not is_path(replica.recipe):
        return replica
    path = (folder / Path(replica.recipe).expanduser()).resolve()
    return replica.model_copy(update={"recipe": str(path)})
