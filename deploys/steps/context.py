"""What the current host is to become: the plan of its inventory, its recipe and its lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import get_token
from pyinfra import host, inventory
from pyinfra.api import Host
from pyinfra.api.exceptions import PyinfraError

from deploys.lock import ensure_lock
from deploys.plan.errors import PlanError
from deploys.plan.fabric import FabricPlan
from deploys.plan.hardware import HARDWARE, Hardware
from deploys.plan.lock import Lock
from deploys.plan.release import Release
from deploys.plan.served import fabric_of, recipe, release_of


def hardware() -> Hardware:
    """Return the hardware class of the current Spark."""
    return HARDWARE[host.data.hardware]


def lock() -> Lock:
    """Return what the names in the current Spark's recipe stand for.

    Names that are not in the lock yet are looked up and recorded: the first use needs the network.

    Raises:
        PyinfraError: a name stands for nothing, or nobody tells; no host has been changed.
    """
    with bad_input():
        recipes = [recipe(host.data.recipe)]
        return ensure_lock(Path(host.data.fleet), recipes, host.data.hf_endpoint, get_token())


def release() -> Release | None:
    """Return the release that the current Spark should serve; None when it is to be idle.

    Raises:
        PyinfraError: as `lock`, or a setting of the group data cannot be.
    """
    if not host.data.recipe:
        return None
    with bad_input():
        return release_of(host.data.dict(), lock())


def peer() -> Host | None:
    """Return the other Spark of the current one's pair; None for a Spark on its own."""
    if fabric_plan() is None:
        return None
    other = host.data.ranks[1 - host.data.rank]
    found: Host = next(each for each in inventory if each.data.spark == other)
    return found


def fabric_plan() -> FabricPlan | None:
    """Return the current Spark's part of its pair's own network; None for a Spark on its own.

    Raises:
        PyinfraError: a setting of the group data cannot be.
    """
    with bad_input():
        return fabric_of(host.data.dict())


@contextmanager
def bad_input() -> Iterator[None]:
    """End the run, of all hosts, before any is changed."""
    try:
        yield
    except PlanError as error:
        raise PyinfraError(str(error)) from None
