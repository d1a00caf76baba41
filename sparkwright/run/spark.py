"""The target of one Spark: the state that inventory, group data and command line declare."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import click

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import GIB, HARDWARE, Hardware
from sparkwright.common.placed import Place
from sparkwright.declared.fleet.fabric_plan import FabricPlan, fabric_of
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.settings import Settings, settings_of
from sparkwright.declared.fleet.without import without
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory.beside import kv_budget, sized, standby_room
from sparkwright.plan.memory.check import memory_findings
from sparkwright.plan.memory.plan import load_of
from sparkwright.plan.release.bundle import Bundle, read_bundle
from sparkwright.plan.release.command import Ranks
from sparkwright.plan.release.lock import Lock, lock_path, read_lock
from sparkwright.plan.release.release import Release, make_release
from sparkwright.run.options import RunOptions, options_of


def read_fleet(path: Path) -> Fleet:
    """Return the fleet of an inventory file as the run is about it: without some of its Sparks."""
    fleet, context = load_fleet(path), click.get_current_context(silent=True)
    given = dict(each.split("=", 1) for each in (context and context.params.get("data")) or ())
    if "without" not in given:
        return fleet
    return _left(fleet, options_of({"without": given["without"]}).without)


def _left(fleet: Fleet, lost: Collection[str]) -> Fleet:
    return without(fleet, lost, {name: recipe_of(name).sparks for name in fleet.recipes})


# A recipe by its name, and the fleet of an inventory file: read once.
recipe_of = cache(load_recipe)
fleet_of = cache(read_fleet)


@cache
def _bundle_of(path: Path) -> Bundle | None:
    source = fleet_of(path).bundle
    if not source:
        return None
    return read_bundle(path.parent / Path(source.bundle).expanduser(), source.sha256, path)


def _served(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a target that a host's data have of its replica (`Fleet.served`)."""
    same = {key: data.get(key) for key in ("replica", "rank", "port", "api_key")}
    same |= {key: bool(data.get(key)) for key in ("on_demand", "pinned")}
    names = {key: tuple(data.get(key) or ()) for key in ("ranks", "whole")}
    return {**same, "recipe_name": data.get("recipe"), **names}


@dataclass(frozen=True)
class SparkTarget:
    """The target of a Spark; a gateway's own host has settings and options only.

    Attributes:
        spark: Its name in the inventory.
        fleet: Path of the inventory file.
        replica: The one that it serves; None for an idle Spark, as recipe, rank and port.
        ranks: The Sparks of the replica, the head first; `rank` is this Spark's place among them.
        whole: Those that the inventory gives it, where the run is without some; else none.
        api_key: "none" where the door is open to all.
        on_demand, pinned: Requests start it, and it then keeps its place.
        seat: Name of the seat, for each further replica of a Spark; "" for the first one.
        replicas: All replicas of a Spark that serves several; else none.
        chosen: The replicas that the run is about.
    """

    spark: str
    hardware_class: str
    fleet: Path
    replica: str | None
    recipe_name: str | None
    ranks: tuple[str, ...]
    whole: tuple[str, ...]
    rank: int | None
    port: int | None
    api_key: str | None
    on_demand: bool
    pinned: bool
    seat: str
    replicas: tuple[str, ...]
    chosen: tuple[str, ...]
    settings: Settings
    options: RunOptions

    @classmethod
    def of(cls, data: Mapping[str, Any], **more: Any) -> Self:
        """Return the target of a host; an invalid setting or option is a PlanError."""
        return cls(
            spark=data.get("spark") or "",
            hardware_class=data.get("hardware") or "",
            fleet=Path(data.get("fleet") or ""),
            seat=data.get("seat") or "",
            replicas=tuple(data.get("replicas") or ()),
            chosen=tuple(data.get("chosen") or data.get("replicas") or ()),
            settings=settings_of(data),
            options=options_of(data),
            **_served(data),
            **more,
        )

    @property
    def hardware(self) -> Hardware:
        """Its hardware class."""
        return HARDWARE[self.hardware_class]

    @property
    def root(self) -> str:
        """The folder of everything on it."""
        return self.settings.root

    @property
    def place(self) -> Place:
        """The folder of its replica."""
        return Place(self.root, self.seat)

    @cached_property
    def seats(self) -> tuple[Self, ...]:
        """The targets of all replicas that the Spark serves; one, also on an idle Spark.

        The first replica in the inventory has the Spark's own place, as if it were alone; so
        nothing changes where there is no second one.
        """
        if not self.replicas:
            return (self,)
        return tuple(self._of_replica(name) for name in self.replicas)

    @property
    def yields(self) -> bool:
        """Tell whether its replica may have to give its place to another."""
        return self.on_demand and not self.pinned

    @property
    def takes_turns(self) -> bool:
        """Tell whether requests start a model of the Spark."""
        return any(each.on_demand for each in self.seats)

    @property
    def chosen_seats(self) -> tuple[Self, ...]:
        """Those of them that the run is about: all, but for ``--limit REPLICA``."""
        return tuple(each for each in self.seats if not self.chosen or each.replica in self.chosen)

    def _of_replica(self, name: str) -> Self:
        if name == self.replica:
            return self
        served = fleet_of(self.fleet).served(self.spark, name)
        return replace(self, **_served(served), seat="" if name == self.replicas[0] else name)

    @property
    def recipe(self) -> Recipe | None:
        """The recipe that it serves; None on an idle Spark."""
        return recipe_of(self.recipe_name) if self.recipe_name else None

    def offer(self, lost: Collection[str]) -> str:
        """Return how its replica is served without some more Sparks; "" where it cannot."""
        gone = dict.fromkeys((*self.options.without, *lost))
        with suppress(PlanError):
            left = _left(load_fleet(self.fleet), gone).replicas[self.replica or ""].sparks
            lock = read_lock(lock_path(self.fleet))
            load = load_of(recipe_of(self.recipe_name or ""), lock, len(left))
            memory = int(self.hardware.total_gib * GIB)
            if not any(each.error for each in memory_findings(load, self.hardware, memory, 0)):
                line = next_line("apply", f"--data without={','.join(gone)}")
                return f"Until then {' and '.join(left)} can serve {self.replica}: {line}"
        return ""

    @property
    def is_group(self) -> bool:
        """Tell whether it serves one model together with other Sparks."""
        return len(self.ranks) > 1

    @property
    def is_head(self) -> bool:
        """Tell whether clients reach a replica on it."""
        return bool(self.recipe_name) and self.rank == 0

    @cached_property
    def fabric(self) -> FabricPlan | None:
        """Its part of its group's own network; None for a Spark on its own."""
        return fabric_of(self.spark, self.ranks, self.settings, self.whole)

    @cached_property
    def bundle(self) -> Bundle | None:
        """The folder that stands for the internet, complete; None where that can be reached."""
        return _bundle_of(self.fleet) if self.fleet.name else None

    @property
    def may_listen(self) -> Declared:
        """Our own listeners that are allowed on it beyond loopback."""
        return Declared(
            tuple(each.port for each in self.seats if each.is_head and each.port),
            pair.addresses if (pair := self.seats[0].fabric) else (),
        )

    def release_by(self, lock: Lock) -> Release | None:
        """Return the release that it is to serve; None when it is to be idle.

        Raises:
            PlanError: The lock lacks a name.
        """
        if self.recipe is None:
            return None
        plan = self.fabric
        fabric = tuple(plan.of(spark).addresses for spark in self.ranks) if plan else ()
        served = self.recipe.at_level(self.settings.log_level)
        standby = 0
        load = load_of(served, lock, len(self.ranks))
        if self.replicas:
            served = sized(load, self.hardware)
        elif self.settings.standby == "auto" and not self.on_demand:
            standby = standby_room(load, self.hardware)
        return make_release(
            served.from_domains(self.settings.media_domains),
            lock,
            self.place,
            Ranks(self.ranks, fabric, self.rank or 0),
            standby,
            0 if self.replicas else kv_budget(load, self.hardware),
        )


@dataclass(frozen=True)
class Declared:
    """Our listeners that are allowed beyond loopback: doors' ports, addresses on the fabric."""

    doors: tuple[int, ...] = ()
    fabric: tuple[str, ...] = ()
