"""The target of each Spark of a run, made once from the host's data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

from pyinfra import host as current
from pyinfra import state
from pyinfra.api import Host
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.errors import PlanError
from sparkwright.common.operations import is_dry_run, partners
from sparkwright.plan.memory.plan import Load, load_of
from sparkwright.plan.memory.turns import Tenant, tenant
from sparkwright.plan.release.ensure import Served, ensure_lock, lost_pins
from sparkwright.plan.release.lock import Lock
from sparkwright.plan.release.release import Release
from sparkwright.plan.release.token import Hub
from sparkwright.run import spark as plan
from sparkwright.run.state import read_all, read_now


@dataclass(frozen=True)
class Target(plan.SparkTarget):
    """The target of a Spark with its host, which only a run knows."""

    host: Host

    @cached_property
    def lock(self) -> Lock:
        """What the names in its recipe stand for.

        Names that are not in the lock yet are looked up, which needs the network, and recorded
        except by a dry run.
        """
        with bad_input():
            return ensure_lock(
                self.fleet,
                [self.recipe] if self.recipe else [],
                self.settings.hf_endpoint,
                self.hub_token,
                record=not is_dry_run(),
                check=self._check_served,
                bundle=self.bundle,
                mirrors=self.settings.registry_mirrors,
            )

    def _check_served(self, lock: Lock | None) -> None:
        """Refuse to resolve names that a release on a Spark of this run was made of."""
        seats = (seat for each in map(target_of, state.active_hosts) for seat in each.seats)
        recipes = [each.recipe for each in seats if each.recipe]
        served = read_all(Served)
        for each in state.active_hosts:
            for seat in target_of(each).seats[1:]:
                answer = read_now(each, Served.ask(root=seat.place))
                served[f"{seat.spark}/{seat.replica}"] = answer
        if problem := lost_pins(self.fleet, lock, recipes, served):
            raise PlanError(problem)

    @property
    def hub_token(self) -> str | None:
        """The Hugging Face token of this machine; None where none is to be sent."""
        with bad_input():
            hub = Hub(self.settings.hf_endpoint, self.settings.hf_token)
            return None if self.bundle else hub.token()

    @cached_property
    def release(self) -> Release | None:
        """What it is to serve; None when it is to be idle."""
        if self.recipe is None:
            return None
        with bad_input():
            return self.release_by(self.lock)

    @cached_property
    def load(self) -> Load | None:
        """Load of its recipe, by the lock; None when it is to be idle."""
        return load_of(self.recipe, self.lock, len(self.ranks)) if self.recipe else None

    @cached_property
    def tenants(self) -> list[Tenant]:
        """The replicas of the Spark in its plan of turns; none where none is on demand."""
        return [
            tenant(str(each.replica), each.load, each.hardware, stays=not each.yields)
            for each in self.seats
            if self.takes_turns and each.load
        ]

    @property
    def peers(self) -> list[Host]:
        """The hosts of its group's other Sparks, in rank order; none for a Spark on its own."""
        return [each for each in self.together if each is not self.host]

    @property
    def together(self) -> list[Host]:
        """The hosts of the inventory that serve one model with it, itself among them."""
        return partners(self.host) if self.is_group else [self.host]


_targets: WeakKeyDictionary[Host, Target] = WeakKeyDictionary()


def seats() -> Iterator[Target]:
    """Yield the targets of the current host that the run is about: one for each replica on it.

    The loop is pyinfra's: else a step for the first seat of one Spark would be the same as one for
    the second seat of another, and the two of a pair could not be brought into one order.
    """
    with bad_input():
        chosen = target().chosen_seats
    yield from current.loop(chosen)


def target() -> Target:
    """Return the target of the current host: of its first replica, where it serves several.

    An invalid setting or option is a PyinfraError: no host has been changed.
    """
    return target_of(current)


def target_of(host: Host) -> Target:
    """Return the target of any host of the run."""
    # pyinfra's `host` stands for whichever host is current.
    known: Host = host.inventory.get_host(host.name)
    if known not in _targets:
        with bad_input():
            _targets[known] = Target.of(known.data.dict(), host=known)
    return _targets[known]


@contextmanager
def bad_input() -> Iterator[None]:
    """Turn invalid input into an error that ends the run for all hosts."""
    try:
        yield
    except PlanError as error:
        raise PyinfraError(str(error)) from None
