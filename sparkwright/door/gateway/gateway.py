"""The gateway, one address for all replicas: its URL, the doors behind it, names and files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sparkwright.common.errors import PlanError, refuse
from sparkwright.declared.fleet.fleet import Fleet, bracketed, needed
from sparkwright.declared.fleet.setting_values import is_address
from sparkwright.declared.fleet.settings import Settings
from sparkwright.declared.recipe.options import AUTO
from sparkwright.declared.recipe.recipe import Answers, Recipe
from sparkwright.door.key import GATEWAY, METRICS, Key

# What Qwen advises for each mode, as the proxy of ig1 has it
# (github.com/iguanesolutions/qwen35-rp, transform.go at 1950199). The cards of some sizes of
# Qwen3.5 have 1.0, 40 and 2.0 for the last one's top_p, top_k and presence_penalty.
_COMMON = {"top_k": 20, "min_p": 0.0, "repetition_penalty": 1.0}
_PROFILES: dict[str, dict[str, Any]] = {
    "thinking-general": {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 1.5},
    "thinking-coding": {"temperature": 0.6, "top_p": 0.95, "presence_penalty": 0.0},
    "instruct-general": {"temperature": 0.7, "top_p": 0.8, "presence_penalty": 1.5},
    "instruct-reasoning": {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 1.5},
}
# The names that AEON-7's engine serves, and their sampling: greedy, which its drafter guesses best,
# and sampled (github.com/AEON-7/Qwen3.6-NVFP4-DFlash, docs/openclaw.md at ca64651).
_PRESETS: dict[str, dict[str, Any]] = {
    "qwen36-fast": {"temperature": 0.0, "top_p": 1.0},
    "qwen36-deep": {"temperature": 0.7, "top_p": 0.95, "top_k": 64, "repetition_penalty": 1.05},
}
# The short names of presets.
ALIASES = {"qwen36-fast": "fast", "qwen36-deep": "deep"}
# Models that have both modes, switched by `enable_thinking`; those for whose modes Qwen's advice is
# in `_PROFILES`.
_BOTH_MODES = re.compile(r"qwen3\.[568]", re.IGNORECASE)
_ADVISED = re.compile(r"qwen3\.[56]", re.IGNORECASE)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_EVERYWHERE = ("0.0.0.0", "::", "*")
# Where the names of doors can lead: no public address. 100.64.0.0/10 has Tailscale's.
_PRIVATE = (
    *("localhost", "link-local", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    *("100.64.0.0/10", "fc00::/7"),
)
# The backend to which the gateway's door sends requests.
BEHIND = "gateway"
# MiB of a request at most: the gateway reads each one whole.
LARGEST = 8
# Files beside the configuration of the door's HAProxy, whose checks know whether a replica serves.
# Requests go to the gateway in any case: its answer says why none does.
DOOR_FILES = {
    "choice.map": "hold no\n",
    "engines.cfg": f"""\
backend engines from door
    server gateway unix@/gateway.sock check inter 2s downinter 500ms fall 3 rise 1
# Nothing waits here.
backend patient from door
backend {BEHIND} from door
    http-request set-header x-sparkwright-client %[var(txn.name)]
    server gateway unix@/gateway.sock
""",
}


@dataclass(frozen=True)
class Upstream:
    """A replica, as the gateway sees it.

    Attributes:
        names: Served names; the first is the engine's own.
        checkpoint: The model's repository on the hub.
        context: Tokens that a request and its answer may have; None where the engine decides.
        keyed: Its door requires a key.
        on_demand: Requests start it.
    """

    replica: str
    names: tuple[str, ...]
    checkpoint: str
    context: int | None
    keyed: bool
    answers: Answers = "chat"
    on_demand: bool = False

    @property
    def both_modes(self) -> bool:
        """Tell whether the model thinks only when told so."""
        return self.answers == "chat" and bool(_BOTH_MODES.search(self.checkpoint))


def upstreams(fleet: Fleet, recipes: Mapping[str, Recipe]) -> list[Upstream]:
    """Return the fleet's replicas as its gateway sees them."""
    result = []
    for name, replica in fleet.replicas.items():
        recipe = recipes[replica.recipe].for_sparks(len(replica.sparks))
        length = recipe.options.max_model_len
        context = None if length == AUTO else length
        checkpoint, keyed = recipe.checkpoints["model"].repo, replica.api_key != "none"
        names = tuple(recipe.models)
        more = recipe.answers, replica.on_demand
        result.append(Upstream(name, names, checkpoint, context, keyed, *more))
    return result


def doors(fleet: Fleet, settings: Mapping[str, Settings]) -> dict[str, str]:
    """Return the URL of each replica's door, as the gateway's host reaches it."""
    urls: dict[str, str] = {}
    problems: list[str] = []
    for name in fleet.replicas:
        try:
            urls[name] = _door(fleet, name, settings[name])
        except PlanError as error:
            problems += error.problems
    refuse(problems)
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


def client_url(fleet: Fleet, settings: Settings) -> str:
    """Return the gateway's URL as clients write it, without a path."""
    gateway = needed(fleet)
    place = fleet.sparks[gateway.spark] if gateway.spark else gateway
    address = "127.0.0.1" if place.local else place.ssh_hostname or str(gateway.spark)
    if settings.bind not in _EVERYWHERE:
        address = settings.bind
    return f"{'https' if settings.secured else 'http'}://{bracketed(address)}:{gateway.port}"


@dataclass(frozen=True)
class ModelAlias:
    """A name that clients may ask for.

    Attributes:
        served: The engines' own name for it.
        upstreams: The replicas that serve it.
        sampling: Defaults for what a request leaves out.
        both_modes: The client decides whether the model thinks.
        thinks: Its answers have a thinking part.
    """

    name: str
    served: str
    upstreams: tuple[Upstream, ...]
    sampling: Mapping[str, Any]
    both_modes: bool
    thinks: bool

    @property
    def answers(self) -> Answers:
        """What clients ask it for."""
        return self.upstreams[0].answers

    @property
    def context(self) -> int | None:
        """Tokens that every replica of the name accepts; None if one of them leaves it open."""
        known = [each.context for each in self.upstreams if each.context is not None]
        return min(known) if len(known) == len(self.upstreams) else None


def served(replicas: Sequence[Upstream], *, by_gateway: bool = True) -> list[ModelAlias]:
    """Return all names that clients may ask for, in the order of the inventory.

    Args:
        by_gateway: Clients ask the gateway, which alone has the profiles; else a door.
    """
    names: dict[str, list[Upstream]] = {}
    for replica in replicas:
        for name in replica.names:
            names.setdefault(name, []).append(replica)
    aliases: dict[str, ModelAlias] = {}
    for name, serving in names.items():
        for each in _variants(name, tuple(serving), by_gateway):
            # A recipe's own served name takes precedence over a profile of the same name.
            if each.name == name or each.name not in names:
                aliases[each.name] = each
    return list(aliases.values())


def _variants(name: str, serving: tuple[Upstream, ...], by_gateway: bool) -> Iterator[ModelAlias]:
    both = serving[0].both_modes
    yield ModelAlias(name, name, serving, _PRESETS.get(name, {}), both_modes=both, thinks=both)
    # Only a model's first name has profiles.
    advised = both and _ADVISED.search(serving[0].checkpoint)
    if by_gateway and advised and name == serving[0].names[0]:
        for profile, own in _PROFILES.items():
            thinks = profile.startswith("thinking")
            template = {"chat_template_kwargs": {"enable_thinking": thinks}}
            sampling = {**own, **_COMMON, **template}
            yield ModelAlias(
                f"{name}-{profile}", name, serving, sampling, both_modes=False, thinks=thinks
            )


def listing(names: Iterable[ModelAlias]) -> str:
    """Return the names in one line, each with the replicas that serve it."""
    replicas = {each.name: ", ".join(one.replica for one in each.upstreams) for each in names}
    return ", ".join(f"{name} ({own})" for name, own in replicas.items())


def configuration(
    replicas: Sequence[Upstream], urls: Mapping[str, str], trusted: str, keys: Sequence[Key] = ()
) -> str:
    """Return the gateway's configuration; it has no secret.

    Args:
        trusted: certificates (PEM) that doors may be signed by, beside those of known authorities.
        keys: of its clients, whose places limit what they may start.
    """
    doors = {
        each.replica: {"url": urls[each.replica], "keyed": each.keyed, "on_demand": each.on_demand}
        for each in replicas
    }
    models = {}
    for alias in served(replicas):
        serving = [each.replica for each in alias.upstreams]
        own = {"served": alias.served, "replicas": serving, "defaults": dict(alias.sampling)}
        models[alias.name] = own
    every = {"doors": doors, "models": models, "barred": barred(replicas, keys)}
    return json.dumps(every | {"trusted": trusted}, indent=2) + "\n"


def barred(replicas: Sequence[Upstream], keys: Sequence[Key]) -> dict[str, list[str]]:
    """Return by the names of keys what they do not start: other replicas than those they name."""
    on_demand = {each.replica for each in replicas if each.on_demand}
    may: dict[str, set[str]] = {}
    for key in keys:
        named = {*key.places} - {GATEWAY, METRICS}
        may.setdefault(key.name, set()).update(named or on_demand)
    return {name: out for name, own in may.items() if (out := sorted(on_demand - own))}


def reachable(urls: Iterable[str]) -> list[str]:
    """Return the addresses that the gateway may exchange packets with, for IPAddressAllow.

    These are the doors' addresses. If a door has a name, which a name server must tell and which
    may change, all private addresses are allowed as well.
    """
    hosts = {str(urlsplit(url).hostname).partition("%")[0] for url in urls}
    addresses = sorted(filter(is_address, hosts))
    return addresses if len(addresses) == len(hosts) else [*_PRIVATE, *addresses]
