"""The plan of the current host, by its inventory, its recipe and its lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import get_token
from pyinfra import host, inventory
from pyinfra.api import Host
from pyinfra.api.exceptions import PyinfraError

from deploys.lock import ensure_lock
from deploys.operations.messages import is_dry_run
from deploys.plan.errors import PlanError
from deploys.plan.fabric import FabricPlan
from deploys.plan.hardware import HARDWARE, Hardware
from deploys.plan.listeners import Declared
from deploys.plan.lock import Lock
from deploys.plan.release import Release
from deploys.plan.served import fabric_of, recipe, release_of
from deploys.plan.token import token_for


def hardware() -> Hardware:
    """Return the hardware class of the current Spark."""
    return HARDWARE[host.data.hardware]


def lock() -> Lock:
    """Return what the names in the current Spark's recipe stand for.

    Names that are not in the lock yet are looked up, and recorded but by a dry run: the first use
    needs the network.

    Raises:
        PyinfraError: a name stands for nothing, or nobody tells; no host has been changed.
    """
    with bad_input():
        recipes = [recipe(host.data.recipe)]
        return ensure_lock(
            Path(host.data.fleet),
            recipes,
            host.data.hf_endpoint,
            hub_token(),
            record=not is_dry_run(),
        )


def hub_token() -> str | None:
    """Return the Hugging Face token of this machine; None where the hub is asked without one.

    Raises:
        PyinfraError: the hub would get it in the clear.
    """
    with bad_input():
        return token_for(host.data.hf_endpoint, get_token(), host.data.hf_token)


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


def may_listen() -> Declared:
    """Return what of ours may listen beyond loopback on the current Spark.

    Raises:
        PyinfraError: as `fabric_plan`.
    """
    plan = fabric_plan()
    heads = bool(host.data.recipe) and host.data.rank == 0
    return Declared(host.data.port if heads else None, plan.addresses if plan else ())


@contextmanager
def bad_input() -> Iterator[None]:
    """End the run, of all hosts, before any is changed."""
    try:
        yield
    except PlanError as error:
        raise PyinfraError(str(error)) from None
