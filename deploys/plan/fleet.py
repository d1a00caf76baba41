"""The fleet: the Sparks that there are, and the replicas that they serve together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from deploys.plan import yaml
from deploys.plan.errors import PlanError
from deploys.plan.fabric import PAIR_PORTS
from deploys.plan.hardware import HARDWARE
from deploys.plan.node_exporter import EXPORTER_PORT
from deploys.plan.recipe import Recipe
from deploys.plan.recipes import is_path
from deploys.plan.release import ENGINE_PORTS
from deploys.plan.schema import Model, Name, Text, nearest, parse

# Names that are groups of pyinfra's or of this project's own: group_data of that name would apply.
RESERVED_REPLICAS = ("all", "gateway", "inventory", "lab", "sparks")

_Port = Annotated[int, Field(ge=1, le=65535)]


class Reached(Model):
    """How pyinfra reaches a host."""

    local: bool = Field(
        default=False, description="true for the machine that runs pyinfra, or false"
    )
    ssh_hostname: Text | None = Field(
        default=None, min_length=1, description="an address or host name, such as 192.168.1.20"
    )
    ssh_user: Text | None = Field(
        default=None, min_length=1, description="the name of a user who may sudo"
    )
    ssh_port: _Port = Field(default=22, description="a TCP port from 1 to 65535")
    ssh_key: Text | None = Field(
        default=None,
        min_length=1,
        description="the path of a private key, such as ~/.ssh/id_ed25519",
    )
    ssh_known_hosts_file: Text | None = Field(
        default=None, min_length=1, description="the path of a known_hosts file"
    )

    @property
    def connection(self) -> dict[str, str | int]:
        """What was set of the ``ssh_*`` keys, by pyinfra's names for them."""
        data = self.model_dump(exclude_unset=True, exclude_none=True)
        return {key: value for key, value in data.items() if key.startswith("ssh_")}


class Spark(Reached):
    """One host. Without ``ssh_hostname`` its name is looked up, in the SSH configuration too."""

    hardware: Text = Field(default="gb10", description="a hardware class, such as gb10")


class Gateway(Reached):
    """Where all replicas have one address: on a Spark, or on a host of its own."""

    spark: Text | None = Field(
        default=None, min_length=1, description="the name of a Spark, such as spark-a"
    )
    # systemd gives a service without root's rights no port below.
    port: Annotated[int, Field(ge=1024, le=65535)] = Field(
        default=4000, description="a TCP port from 1024 to 65535"
    )


class Replica(Model):
    """Sparks that serve one model together; the first is the head (rank 0)."""

    recipe: Text = Field(description="the name of a recipe, or the path of its file")
    sparks: list[Text] = Field(
        min_length=1, max_length=2, description="a list of one or two Sparks, such as [spark-a]"
    )
    port: _Port = Field(default=8000, description="a TCP port from 1 to 65535")
    api_key: Literal["none"] | None = Field(
        default=None, description="none, for a door that is open to all, or no such key"
    )


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


@dataclass(frozen=True)
class Assignment:
    """What one Spark serves: its replica, and its part in it.

    Attributes:
        ranks: All Sparks of the replica, the head first.
        rank: This Spark's place among them.
        port: Where clients ask the replica.
        api_key: "none" where they need none.
    """

    replica: str
    recipe: str
    ranks: tuple[str, ...]
    rank: int
    port: int
    api_key: Literal["none"] | None


@dataclass(frozen=True)
class Fleet:
    """All Sparks and replicas of one inventory file; the path of a recipe's file is absolute."""

    source: Path
    sparks: Mapping[str, Spark]
    replicas: Mapping[str, Replica]
    gateway: Gateway | None = None

    @property
    def recipes(self) -> list[str]:
        """Names, or paths, of the recipes in use, sorted."""
        return sorted({replica.recipe for replica in self.replicas.values()})

    def assignment(self, spark: str) -> Assignment | None:
        """What a Spark serves, or None: it is prepared, and idle.

        Args:
            spark: The Spark's name.
        """
        for name, replica in self.replicas.items():
            if spark in replica.sparks:
                rank = replica.sparks.index(spark)
                ranks = tuple(replica.sparks)
                return Assignment(name, replica.recipe, ranks, rank, replica.port, replica.api_key)
        return None


def load_fleet(path: Path, recipes: Collection[str]) -> Fleet:
    """Read an inventory file and check all that can be known without a recipe's content.

    Args:
        path: The YAML file (``inventory/sparks.yaml``); paths in it are relative to its folder.
        recipes: Names of the recipes that there are.

    Raises:
        PlanError: Everything that is wrong with the file.
    """
    file = parse(_File, yaml.load(path), str(path))
    replicas = {name: _located(replica, path.parent) for name, replica in file.replicas.items()}
    fleet = Fleet(path, file.sparks, replicas, file.gateway)
    problems = [
        *_spark_problems(fleet),
        *_replica_problems(fleet, recipes),
        *_gateway_problems(fleet),
    ]
    if problems:
        raise PlanError(*problems)
    return fleet


def _located(replica: Replica, folder: Path) -> Replica:
    if not is_path(replica.recipe):
        return replica
    path = (folder / Path(replica.recipe).expanduser()).resolve()
    return replica.model_copy(update={"recipe": str(path)})


def unsupported(fleet: Fleet, recipes: Mapping[str, Recipe]) -> list[str]:
    """List the replicas that ask of a recipe what it does not support.

    Args:
        fleet: The fleet.
        recipes: The recipes in use, by name.

    Returns:
        Problems, as PlanError takes them.
    """
    problems = []
    for name, replica in fleet.replicas.items():
        recipe = recipes[replica.recipe]
        where = f"{fleet.source}: replicas.{name}"
        if len(replica.sparks) not in recipe.sparks:
            counts = " or ".join(map(str, recipe.sparks))
            problems.append(
                f"{where}.sparks: found {len(replica.sparks)} Spark(s); "
                f"expected {counts}, which is what recipe {recipe.name} supports"
            )
        problems += [
            f"{where}.sparks: found {spark}, of hardware class {fleet.sparks[spark].hardware}; "
            f"expected {' or '.join(recipe.hardware)}, which is what recipe {recipe.name} supports"
            for spark in replica.sparks
            if fleet.sparks[spark].hardware not in recipe.hardware
        ]
    return problems


def _address(name: str, host: Reached) -> tuple[object, ...]:
    return ("local",) if host.local else (host.ssh_hostname or name, host.ssh_port)


def _both_ways(host: Reached) -> str | None:
    """Say what is wrong with a host that is both this machine and another."""
    if host.local and host.connection:
        keys = ", ".join(host.connection)
        return f"found local: true and {keys}; expected one or the other"
    return None


def _spark_problems(fleet: Fleet) -> Iterator[str]:
    addresses: dict[tuple[object, ...], str] = {}
    for name, spark in fleet.sparks.items():
        where = f"{fleet.source}: sparks.{name}"
        if spark.hardware not in HARDWARE:
            known = nearest(spark.hardware, HARDWARE)
            yield f"{where}.hardware: found {spark.hardware}; expected {known}"
        if problem := _both_ways(spark):
            yield f"{where}: {problem}"
        address = _address(name, spark)
        if address in addresses:
            yield f"{where}: found the address of {addresses[address]}; expected another machine"
        addresses.setdefault(address, name)


def _replica_problems(fleet: Fleet, recipes: Collection[str]) -> Iterator[str]:
    for name, replica in fleet.replicas.items():
        where = f"{fleet.source}: replicas.{name}"
        if name in RESERVED_REPLICAS or name in fleet.sparks:
            yield f"{where}: found a name that a Spark or group has; expected another name"
        if is_path(replica.recipe):
            if not Path(replica.recipe).is_file():
                yield f"{where}.recipe: found {replica.recipe}, which is no file; expected a recipe"
        elif replica.recipe not in recipes:
            known = nearest(replica.recipe, recipes)
            yield f"{where}.recipe: found {replica.recipe}; expected {known}"
        head = fleet.sparks.get(replica.sparks[0])
        if others := _taken(replica.port, head):
            yield f"{where}.port: found {replica.port}; expected another than {others}"
        for spark, times in Counter(replica.sparks).items():
            if spark not in fleet.sparks:
                yield f"{where}.sparks: found {spark}; expected {nearest(spark, fleet.sparks)}"
            if times > 1:
                yield f"{where}.sparks: found {spark} {times} times; expected each Spark once"
        if len(replica.sparks) > 1:
            yield from _fabric_problems(fleet, where, replica)
    users: dict[str, str] = {}
    for name, replica in fleet.replicas.items():
        for spark in dict.fromkeys(replica.sparks):
            if spark in users:
                yield (
                    f"{fleet.source}: replicas.{name}.sparks: found {spark}, which replica "
                    f"{users[spark]} uses; expected a Spark that no other replica uses"
                )
            users.setdefault(spark, name)


def _gateway_problems(fleet: Fleet) -> Iterator[str]:
    gateway = fleet.gateway
    if gateway is None:
        return
    where = f"{fleet.source}: gateway"
    if not fleet.replicas:
        yield f"{where}: found no replicas; expected at least one, as it has no model of its own"
    if gateway.spark is None:
        yield from _gateway_host_problems(fleet, gateway, where)
        return
    own = ["local"] * gateway.local + list(gateway.connection)
    if own:
        yield f"{where}: found spark and {', '.join(own)}; expected one or the other"
    if gateway.spark not in fleet.sparks:
        known = nearest(gateway.spark, fleet.sparks)
        yield f"{where}.spark: found {gateway.spark}; expected {known}"
    for name, replica in fleet.replicas.items():
        if gateway.port == replica.port and gateway.spark == replica.sparks[0]:
            port = f"{gateway.port}, the port of replica {name}"
            yield f"{where}.port: found {port}; expected another"
    if others := _taken(gateway.port, fleet.sparks.get(gateway.spark)):
        yield f"{where}.port: found {gateway.port}; expected another than {others}"


def _gateway_host_problems(fleet: Fleet, gateway: Gateway, where: str) -> Iterator[str]:
    if not gateway.local and gateway.ssh_hostname is None:
        yield (
            f"{where}: found no host; expected the name of a Spark, such as {{spark: "
            f"{next(iter(fleet.sparks))}}}, or a host of its own, such as "
            "{ssh_hostname: 192.168.1.10}"
        )
        return
    if problem := _both_ways(gateway):
        yield f"{where}: {problem}"
        return
    if "gateway" in fleet.sparks:
        yield (
            f"{fleet.source}: sparks.gateway: found a name that the gateway's host has; "
            "expected another name"
        )
    for name, spark in fleet.sparks.items():
        if _address(name, spark) == _address("gateway", gateway):
            yield f"{where}: found the address of {name}; expected {{spark: {name}}}"


def _taken(port: int, spark: Spark | None) -> str | None:
    """Say which ports of a Spark are no client's, where one of them is asked for."""
    if spark and not spark.local and port == spark.ssh_port:
        return f"{port}, by which pyinfra reaches the Spark (ssh_port)"
    if port in (*ENGINE_PORTS, *PAIR_PORTS, EXPORTER_PORT):
        return (
            f"{_range(ENGINE_PORTS)}, where engines listen, {_range(PAIR_PORTS)}, which a pair "
            f"itself uses, and {EXPORTER_PORT}, of the node exporter"
        )
    return None


def _range(ports: Sequence[int]) -> str:
    return f"{ports[0]} to {ports[-1]}"


def _fabric_problems(fleet: Fleet, where: str, replica: Replica) -> Iterator[str]:
    able = [name for name, hardware in HARDWARE.items() if hardware.fabric_ports]
    for name in replica.sparks:
        spark = fleet.sparks.get(name)
        if spark and spark.hardware in HARDWARE and spark.hardware not in able:
            yield (
                f"{where}.sparks: found {name}, of hardware class {spark.hardware}, in a replica "
                f"of two; expected {' or '.join(able)}, which a cable can join"
            )
