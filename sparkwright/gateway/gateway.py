"""The gateway, one address for all replicas: its URL, and the replicas and doors behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparkwright.common.errors import PlanError
from sparkwright.fleet.fleet import Fleet, Gateway, bracketed
from sparkwright.fleet.settings import Settings
from sparkwright.recipe.options import AUTO
from sparkwright.recipe.recipe import Answers, Recipe

# Models that have both modes, switched by `enable_thinking`; those for whose modes Qwen's advice is
# in `names._PROFILES`.
_BOTH_MODES = re.compile(r"qwen3\.[568]", re.IGNORECASE)
_ADVISED = re.compile(r"qwen3\.[56]", re.IGNORECASE)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_EVERYWHERE = ("0.0.0.0", "::", "*")


@dataclass(frozen=True)
class Upstream:
    """A replica, as the gateway sees it.

    Attributes:
        names: Served names; the first is the engine's own.
        checkpoint: The model's repository on the hub.
        context: Tokens that a request and its answer may have; None where the engine decides.
        keyed: Its door requires a key.
    """

    replica: str
    names: tuple[str, ...]
    checkpoint: str
    context: int | None
    keyed: bool
    answers: Answers = "chat"

    @property
    def both_modes(self) -> bool:
        """Tell whether the model thinks only when told so."""
        return self.answers == "chat" and bool(_BOTH_MODES.search(self.checkpoint))

    @property
    def has_profiles(self) -> bool:
        """Tell whether the gateway has names for its modes."""
        return self.both_modes and bool(_ADVISED.search(self.checkpoint))


def clashes(fleet: Fleet, recipes: Mapping[str, Recipe]) -> list[str]:
    """Return the replicas that serve different models under one name, as problems for PlanError."""
    if fleet.gateway is None:
        return []
    problems = []
    first: dict[str, tuple[str, str]] = {}
    for replica, served in fleet.replicas.items():
        recipe = recipes[served.recipe]
        for name, checkpoint in recipe.models.items():
            other, expected = first.setdefault(name, (replica, checkpoint))
            if checkpoint != expected:
                problems.append(
                    f"{fleet.source}: replicas.{replica}.recipe: found {served.recipe}, which "
                    f"serves {checkpoint} as {name}; expected {expected}, which is {name} in "
                    f"replica {other}, or another served name, as the gateway asks either"
                )
    return problems


def upstreams(fleet: Fleet, recipes: Mapping[str, Recipe]) -> list[Upstream]:
    """Return the fleet's replicas as its gateway sees them."""
    result = []
    for name, replica in fleet.replicas.items():
        recipe = recipes[replica.recipe].for_sparks(len(replica.sparks))
        length = recipe.options.max_model_len
        context = None if length == AUTO else length
        checkpoint, keyed = recipe.checkpoints["model"].repo, replica.api_key != "none"
        names = tuple(recipe.models)
        result.append(Upstream(name, names, checkpoint, context, keyed, recipe.answers))
    return result


def doors(fleet: Fleet, settings: Mapping[str, Settings]) -> dict[str, str]:
    """Return the URL of each replica's door, as the gateway's host reaches it.

    Raises:
        PlanError: It cannot reach some doors.
    """
    urls: dict[str, str] = {}
    problems: list[str] = []
    for name in fleet.replicas:
        try:
            urls[name] = _door(fleet, name, settings[name])
        except PlanError as error:
            problems += error.problems
    if problems:
        raise PlanError(*problems)
    return urls


def _door(fleet: Fleet, name: str, settings: Settings) -> str:
    replica, gateway = fleet.replicas[name], needed(fleet)
    head = replica.sparks[0]
    spark, bind = fleet.sparks[head], settings.bind
    same_host = gateway.spark == head or (gateway.local and spark.local)
    where = f"{fleet.source}: replicas.{name}"
    if bind in _LOOPBACK and not same_host:
        raise PlanError(
            f"{where}: found bind {bind}, where only {head} itself reaches the door; "
            f"expected gateway: {{spark: {head}}}, or another bind in the group data"
        )
    # A certificate of our CA has this machine's address; the names in an owner's are unknown.
    if spark.local and (settings.tls_certificate or not same_host):
        why = "and a certificate, whose name" if settings.secured else "whose address"
        raise PlanError(
            f"{where}: found {head} with local: true, {why} the gateway cannot know; "
            "expected ssh_hostname"
        )
    address = spark.ssh_hostname or head
    if not settings.tls_certificate and bind not in _EVERYWHERE:
        address = bind
    elif not settings.tls_certificate and same_host:
        address = "127.0.0.1"
    return f"{'https' if settings.secured else 'http'}://{bracketed(address)}:{replica.port}"


def needed(fleet: Fleet) -> Gateway:
    """Return the fleet's gateway.

    Raises:
        PlanError: It has none.
    """
    if fleet.gateway is None:
        raise PlanError(
            f"{fleet.source}: found no gateway; expected where it is to run, such as "
            f"gateway: {{spark: {next(iter(fleet.sparks))}, port: 4000}}"
        )
    return fleet.gateway


def client_url(fleet: Fleet, secured: bool = False) -> str:
    """Return the gateway's URL as clients write it, without a path.

    Raises:
        PlanError: It has no gateway.
    """
    gateway = needed(fleet)
    place = fleet.sparks[gateway.spark] if gateway.spark else gateway
    address = "127.0.0.1" if place.local else place.ssh_hostname or str(gateway.spark)
    return f"{'https' if secured else 'http'}://{bracketed(address)}:{gateway.port}"
