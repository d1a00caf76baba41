"""What the current host is to become: the plan of its inventory, its recipe and its lock."""

from functools import cache
from pathlib import Path

from huggingface_hub import get_token
from pyinfra import host
from pyinfra.api.exceptions import PyinfraError

from deploys.lock import ensure_lock
from deploys.plan.errors import PlanError
from deploys.plan.hardware import HARDWARE, Hardware
from deploys.plan.lock import Lock
from deploys.plan.recipe import Recipe, load_recipe
from deploys.plan.release import Release, make_release


def hardware() -> Hardware:
    """Return the hardware class of the current Spark."""
    return HARDWARE[host.data.hardware]


def lock() -> Lock:
    """Return what the names in the current Spark's recipe stand for.

    Names that are not in the lock yet are looked up and recorded: the first use needs the network.

    Raises:
        PyinfraError: a name stands for nothing, or nobody tells; no host has been changed.
    """
    recipe = _recipe(host.data.recipe)
    try:
        return ensure_lock(Path(host.data.fleet), [recipe], host.data.hf_endpoint, get_token())
    except PlanError as error:
        raise PyinfraError(str(error)) from None


def release() -> Release | None:
    """Return the release that the current Spark should serve; None when it is to be idle.

    Raises:
        PyinfraError: as `lock`, or a setting of the group data cannot be.
    """
    if not host.data.recipe:
        return None
    try:
        return make_release(
            _recipe(host.data.recipe),
            lock(),
            root=host.data.root,
            bind=host.data.bind,
            port=host.data.port,
        )
    except PlanError as error:
        raise PyinfraError(str(error)) from None


@cache
def _recipe(name: str) -> Recipe:
    return load_recipe(name)
