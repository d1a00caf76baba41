"""Reads and checks an inventory file such as ``inventory/sparks.yaml``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.hardware import HARDWARE
from sparkwright.common.ports import EXPORTER_PORT, PAIR_PORTS
from sparkwright.common.schema import parse, shown, unknown
from sparkwright.declared.fleet.fleet import Fleet, InventoryFile, Reached, Replica, Spark
from sparkwright.declared.recipe.loader import is_path, recipe_names
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.trust import needs

# Groups of pyinfra's or of this project's own: their group_data would apply.
_RESERVED = ("all", "gateway", "inventory", "lab", "sparks")


def load_fleet(path: Path) -> Fleet:
    """Read an inventory file, and check all but the content of recipes."""
    if not path.exists():
        example = Path("inventory/examples/one.yaml")
        raise PlanError(
            f"{path}: found no such file; expected your Sparks in it: "
            + (f"cp {example} {path}, then write" if example.exists() else "write")
            + " their addresses there"
        )
    with yaml.lines_of(path):
        file = parse(InventoryFile, yaml.load(path), str(path))
        replicas = {name: _located(replica, path.parent) for name, replica in file.replicas.items()}
        words = tuple(file.keys_command or ())
        fleet = Fleet(path, file.sparks, replicas, file.gateway, words, file.source)
        problems = (*_spark_problems(fleet), *_replica_problems(fleet), *_gateway_problems(fleet))
        refuse(f"{path}: {problem}" for problem in problems)
    return fleet


def _located(replica: Replica, folder: Path) -> Replica:
    if not is_path(replica.recipe):
        return replica
    path = (folder / Path(replica.recipe).expanduser()).resolve()
    return replica.model_copy(update={"recipe": str(path)})


def unsupported(fleet: Fleet, recipes: Mapping[str, Recipe]) -> list[str]:
    """Return the problems, for a PlanError, of replicas that their recipes do not support."""
    problems = (*_same_names(fleet, recipes), *_unsupported(fleet, recipes))
    return [f"{fleet.source}: replicas.{problem}" for problem in problems]


def _unsupported(fleet: Fleet, recipes: Mapping[str, Recipe]) -> Iterator[str]:
    for name, replica in fleet.replicas.items():
        recipe = recipes[replica.recipe]
        if len(replica.sparks) not in recipe.sparks:
            counts = " or ".join(map(str, recipe.sparks))
            yield (
                f"{name}.sparks: found {len(replica.sparks)} Spark(s); "
                f"expected {counts}, which is what recipe {recipe.name} supports"
            )
        for spark in replica.sparks:
            if (hardware := fleet.sparks[spark].hardware) not in recipe.hardware:
                yield (
                    f"{name}.sparks: found {spark}, of hardware class {hardware}; expected "
                    f"{' or '.join(recipe.hardware)}, which is what recipe {recipe.name} supports"
                )
        yield from (f"{name}.trusts: {problem}" for problem in _untrusted(replica, recipe))


def _same_names(fleet: Fleet, recipes: Mapping[str, Recipe]) -> Iterator[str]:
    """Yield the replicas with another one's served name: clients name the model they mean.

    Those on one Spark may not share any; those that a gateway asks, none of different models.
    """
    for spark in fleet.sparks:
        names: dict[str, str] = {}
        seated = fleet.replicas_of(spark)
        for name in seated if len(seated) > 1 else ():
            own = recipes[fleet.replicas[name].recipe]
            if both := [each for each in own.models if each in names]:
                yield (
                    f"{name}.recipe: found {own.name}, which serves {both[0]}, as replica "
                    f"{names[both[0]]} does on {spark}; expected a recipe with other names"
                )
            names |= dict.fromkeys(own.models, name)
    known: dict[str, tuple[str, str]] = {}
    for name, replica in fleet.replicas.items() if fleet.gateway else ():
        for served, checkpoint in recipes[replica.recipe].models.items():
            first, expected = known.setdefault(served, (name, checkpoint))
            if checkpoint != expected:
                yield (
                    f"{name}.recipe: found {replica.recipe}, which serves {checkpoint} as "
                    f"{served}; expected {expected}, which is {served} in replica {first}, or "
                    "another served name, as the gateway asks either"
                )


def _untrusted(replica: Replica, recipe: Recipe) -> Iterator[str]:
    """Yield what a recipe needs and the inventory, which alone can grant it, does not allow."""
    required = list(needs(recipe.for_sparks(len(replica.sparks))))
    missing = {need.key: need for need in required if need.name not in replica.trusts}
    # The word for what a mod was before allows nothing any more.
    changed = {_mod(need.name) for need in missing.values()} - {""}
    stay = [word for word in replica.trusts if _mod(word) not in changed]
    names = sorted({need.name for need in required} | {*stay})
    for key, need in missing.items():
        since = ""
        if _mod(need.name) and any(_mod(word) == _mod(need.name) for word in replica.trusts):
            since = " and has changed since it was allowed"
        yield "\n".join(
            [
                f"found {shown(replica.trusts)}; expected another recipe than {recipe.name}, whose "
                f"{key} {need.danger}{since}, or, if you trust it and its image with that, "
                f"trusts: [{', '.join(names)}]",
                *(f"  {line}" for line in need.details),
            ]
        )


def _mod(word: str) -> str:
    """Return the name of a mod from the word that allows it, ``mod:NAME@DIGEST``; "" of others."""
    return word.removeprefix("mod:").partition("@")[0] if word.startswith("mod:") else ""


def _spark_problems(fleet: Fleet) -> Iterator[str]:
    addresses: dict[tuple[object, ...], str] = {}
    for name, spark in fleet.sparks.items():
        yield from unknown(f"sparks.{name}.hardware", [spark.hardware], HARDWARE)
        if name == "sparks":
            yield "sparks.sparks: found the name of the group of all; expected another name"
        if (other := addresses.setdefault(_address(name, spark), name)) != name:
            yield f"sparks.{name}: found the address of {other}; expected another machine"


def _replica_problems(fleet: Fleet) -> Iterator[str]:
    recipes = recipe_names()
    able = [name for name, hardware in HARDWARE.items() if hardware.fabric_ports]
    cardless = HARDWARE.keys() - {*able}
    for name, replica in fleet.replicas.items():
        where = f"replicas.{name}"
        if name in _RESERVED or name in fleet.sparks:
            yield f"{where}: found a name that a Spark or group has; expected another name"
        if not is_path(replica.recipe):
            yield from unknown(f"{where}.recipe", [replica.recipe], recipes)
        elif not (path := Path(replica.recipe)).is_file():
            meant = f"the name alone: {path.stem}" if path.stem in recipes else "a recipe"
            yield f"{where}.recipe: found {path}, which is no file; expected {meant}"
        yield from _taken(where, replica.port, fleet.sparks.get(replica.sparks[0]))
        for spark, times in Counter(replica.sparks).items():
            yield from unknown(f"{where}.sparks", [spark], fleet.sparks)
            if times > 1:
                yield f"{where}.sparks: found {spark} {times} times; expected each Spark once"
            known = fleet.sparks.get(spark)
            if len(replica.sparks) > 1 and known and known.hardware in cardless:
                yield (
                    f"{where}.sparks: found {spark}, of hardware class {known.hardware}, in a "
                    f"group; expected {' or '.join(able)}, which a cable can join"
                )
        for key in () if replica.on_demand else ("pinned", "idle_minutes", "turn_seconds"):
            if replica.model_fields_set & {key}:
                found = f"{where}.{key}: found {shown(getattr(replica, key))}"
                yield f"{found} without on_demand; expected on_demand: true, or no {key}"
        if replica.pinned and replica.idle_minutes is not None:
            found = f"{where}.idle_minutes: found {replica.idle_minutes} beside pinned"
            yield f"{found}; expected one of the two: a pinned model is never stopped"
    for spark in fleet.sparks:
        yield from _shared_problems(fleet, spark)


def _shared_problems(fleet: Fleet, spark: str) -> Iterator[str]:
    """Yield what is wrong where a Spark is in several replicas.

    A group gives its Sparks up to others where requests start it, and its head is that of any other
    group. It comes first, so that it has the same seat, and its network, on all of them.
    """
    names = fleet.replicas_of(spark)
    ports = {fleet.replicas[name].port for name in names}
    for place, name in enumerate(names):
        own, where = fleet.replicas[name], f"replicas.{name}"
        for first, other in ((each, fleet.replicas[each]) for each in names[:place]):
            uses = f"{where}.sparks: found {spark}, which replica {first} uses; expected"
            groups = [each for each in (first, name) if len(fleet.replicas[each].sparks) > 1]
            if always := [each for each in groups if not fleet.replicas[each].on_demand]:
                yield (
                    f"{uses} a Spark that no other replica uses, as {always[0]} is a group, or "
                    f"on_demand: true at {' and '.join(always)}, so that they take turns"
                )
            elif len(groups) > 1 and own.sparks != other.sparks:
                yield f"{uses} {shown(other.sparks)}, as groups that share a Spark have one head"
            elif len(groups) > 1 and (kept := [x for x in groups if fleet.replicas[x].pinned]):
                found = f"replicas.{kept[0]}.pinned: found true; expected false, as"
                yield f"{found} the groups {' and '.join(groups)} take turns at one fabric"
            elif groups == [name]:
                yield f"{where}: found it after replica {first} on {spark}; expected a group first"
            elif own.recipe == other.recipe:
                yield (
                    f"{where}.recipe: found {own.recipe}, which {spark} serves as replica {first}; "
                    "expected another recipe, or another Spark"
                )
            elif own.port == other.port:
                free = next(port for port in range(8000, 1 << 16) if port not in ports)
                yield (
                    f"{where}.port: found {own.port}, the port of replica {first} on {spark}; "
                    f"expected another, such as port: {free}"
                )
            else:
                continue
            break


def _gateway_problems(fleet: Fleet) -> Iterator[str]:
    gateway = fleet.gateway
    if gateway is None:
        return
    if not fleet.replicas:
        yield "gateway: found no replicas; expected at least one, as it has no model of its own"
    if gateway.spark is None:
        if "gateway" in fleet.sparks:
            expected = "expected another name"
            yield f"sparks.gateway: found a name that the gateway's host has; {expected}"
        for name, spark in fleet.sparks.items():
            if _address(name, spark) == _address("gateway", gateway):
                yield f"gateway: found the address of {name}; expected {{spark: {name}}}"
        return
    yield from unknown("gateway.spark", [gateway.spark], fleet.sparks)
    for name, replica in fleet.replicas.items():
        if gateway.port == replica.port and gateway.spark == replica.sparks[0]:
            port = f"{gateway.port}, the port of replica {name}"
            yield f"gateway.port: found {port}; expected another"
    yield from _taken("gateway", gateway.port, fleet.sparks.get(gateway.spark))


def _address(name: str, host: Reached) -> tuple[object, ...]:
    return ("local",) if host.local else (host.ssh_hostname or name, host.ssh_port)


def _taken(where: str, port: int, spark: Spark | None) -> Iterator[str]:
    found = f"{where}.port: found {port}; expected another than"
    if spark and not spark.local and port == spark.ssh_port:
        yield f"{found} {port}, by which pyinfra reaches the Spark (ssh_port)"
    elif port in (*PAIR_PORTS, EXPORTER_PORT):
        yield (
            f"{found} {PAIR_PORTS[0]} to {PAIR_PORTS[-1]}, which a group itself uses, and "
            f"{EXPORTER_PORT}, of the node exporter"
        )
