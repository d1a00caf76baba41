"""The gateway: one address for all replicas, by LiteLLM's proxy."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from deploys.plan.errors import PlanError
from deploys.plan.fleet import Fleet, Gateway
from deploys.plan.recipe import Recipe

# What Qwen advises for each mode, as the proxy of seed 002's authors has it
# (github.com/iguanesolutions/qwen35-rp, transform.go at 1950199). The cards of some sizes of
# Qwen3.5 have 1.0, 40 and 2.0 for the last one's top_p, top_k and presence_penalty.
_OPENAI = ("temperature", "top_p", "presence_penalty")
_COMMON = {"top_k": 20, "min_p": 0.0, "repetition_penalty": 1.0}
_PROFILES: dict[str, dict[str, Any]] = {
    "thinking-general": {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 1.5},
    "thinking-coding": {"temperature": 0.6, "top_p": 0.95, "presence_penalty": 0.0},
    "instruct-general": {"temperature": 0.7, "top_p": 0.8, "presence_penalty": 1.5},
    "instruct-reasoning": {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 1.5},
}
# Seed 001: names that its engine serves, and what it means by them. What is not said here is the
# checkpoint's own: vLLM reads its generation_config.json.
_PRESETS = {"qwen36-fast": {"temperature": 0.0}, "qwen36-deep": {"temperature": 0.7}}
# Models that have both modes, switched by `enable_thinking`.
_BOTH_MODES = re.compile(r"qwen3\.[56]", re.IGNORECASE)


class _Dumper(yaml.SafeDumper):
    """Writes everything out: people read the file."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# Seconds. Longer than any answer: 82,000 tokens at 25 a second.
_REQUEST_TIMEOUT = 3600
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_EVERYWHERE = ("0.0.0.0", "::", "*")


@dataclass(frozen=True)
class Upstream:
    """A replica, as the gateway sees it.

    Attributes:
        names: Served names; the first is the engine's own.
        checkpoint: The model's repository on the hub.
        context: Tokens that a request and its answer may have; None where the engine decides.
        keyed: Its door asks for a key.
    """

    replica: str
    names: tuple[str, ...]
    checkpoint: str
    context: int | None
    keyed: bool

    @property
    def both_modes(self) -> bool:
        """Whether the model thinks only when told so."""
        return bool(_BOTH_MODES.search(self.checkpoint))


@dataclass(frozen=True)
class Served:
    """A name that clients may ask for.

    Attributes:
        upstreams: The replicas that serve it.
        sampling: What is set where the request does not set it.
        both_modes: The client decides whether the model thinks.
        thinks: Its answers have a thinking part.
    """

    name: str
    upstreams: tuple[Upstream, ...]
    sampling: Mapping[str, Any]
    both_modes: bool
    thinks: bool

    @property
    def context(self) -> int | None:
        """Tokens that every replica which serves the name takes; None: one does not say."""
        found = [upstream.context for upstream in self.upstreams]
        known = [context for context in found if context is not None]
        return min(known) if len(known) == len(found) else None


def clashes(fleet: Fleet, recipes: Mapping[str, Recipe]) -> list[str]:
    """List the replicas that give another model a name that a gateway has to share out.

    Args:
        fleet: The fleet.
        recipes: The recipes in use, by name.

    Returns:
        Problems, as PlanError takes them.
    """
    if fleet.gateway is None:
        return []
    problems = []
    first: dict[str, tuple[str, str]] = {}
    for replica, served in fleet.replicas.items():
        recipe = recipes[served.recipe]
        for name in recipe.served_names:
            checkpoint = recipe.checkpoints["model"].repo
            other, expected = first.setdefault(name, (replica, checkpoint))
            if checkpoint != expected:
                problems.append(
                    f"{fleet.source}: replicas.{replica}.recipe: found {served.recipe}, which "
                    f"serves {checkpoint} as {name}; expected {expected}, which is {name} in "
                    f"replica {other}, or another served name, as the gateway asks either"
                )
    return problems


def upstreams(fleet: Fleet, recipes: Mapping[str, Recipe]) -> list[Upstream]:
    """Return the fleet's replicas as its gateway sees them.

    Args:
        fleet: The fleet.
        recipes: The recipes in use, by name.
    """
    found = []
    for name, replica in fleet.replicas.items():
        recipe = recipes[replica.recipe].for_sparks(len(replica.sparks))
        length = recipe.args.get("max-model-len")
        found.append(
            Upstream(
                replica=name,
                names=tuple(recipe.served_names),
                checkpoint=recipe.checkpoints["model"].repo,
                context=length if isinstance(length, int) else None,
                keyed=replica.api_key != "none",
            )
        )
    return found


def doors(fleet: Fleet, setting: Callable[[str, str], Any]) -> dict[str, str]:
    """Return the URL of each replica's door, as the gateway's host reaches it.

    Args:
        fleet: The fleet, with a gateway.
        setting: Gives a replica's group data, by the names of replica and value.

    Raises:
        PlanError: The doors that it cannot reach.
    """
    found: dict[str, str] = {}
    problems: list[str] = []
    for name in fleet.replicas:
        try:
            found[name] = _door(fleet, name, setting)
        except PlanError as error:
            problems += error.problems
    if problems:
        raise PlanError(*problems)
    return found


def _door(fleet: Fleet, name: str, setting: Callable[[str, str], Any]) -> str:
    replica, gateway = fleet.replicas[name], needed(fleet)
    head = replica.sparks[0]
    spark, bind = fleet.sparks[head], str(setting(name, "bind"))
    beside = gateway.spark == head or (gateway.local and spark.local)
    where = f"{fleet.source}: replicas.{name}"
    if bind in _LOOPBACK and not beside:
        raise PlanError(
            f"{where}: found bind {bind}, where only {head} itself reaches the door; "
            f"expected gateway: {{spark: {head}}}, or another bind in the group data"
        )
    secured = setting(name, "tls_certificate") is not None
    if spark.local and (secured or not beside):
        why = "and a certificate, whose name" if secured else "whose address"
        raise PlanError(
            f"{where}: found {head} with local: true, {why} the gateway cannot know; "
            "expected ssh_hostname"
        )
    address = spark.ssh_hostname or head
    if not secured and bind not in _EVERYWHERE:
        address = bind
    elif not secured and beside:
        address = "127.0.0.1"
    return f"{'https' if secured else 'http'}://{bracketed(address)}:{replica.port}"


def bracketed(address: str) -> str:
    """Return an address as URLs write it."""
    return f"[{address}]" if ":" in address else address


def served(replicas: Sequence[Upstream]) -> list[Served]:
    """Return all that clients may ask for, in the order of the inventory.

    Args:
        replicas: What `upstreams` returned.
    """
    names: dict[str, list[Upstream]] = {}
    for replica in replicas:
        for name in replica.names:
            names.setdefault(name, []).append(replica)
    found: dict[str, Served] = {}
    for name, serving in names.items():
        for each in _variants(name, tuple(serving)):
            # A recipe that serves such a name itself means that.
            if each.name == name or each.name not in names:
                found[each.name] = each
    return list(found.values())


def _variants(name: str, serving: tuple[Upstream, ...]) -> Iterator[Served]:
    both = serving[0].both_modes
    yield Served(name, serving, _PRESETS.get(name, {}), both_modes=both, thinks=both)
    # One name of a model is enough to have its profiles under.
    if both and name == serving[0].names[0]:
        for profile, sampling in _PROFILES.items():
            thinks = profile.startswith("thinking")
            sampling = {
                **sampling,
                **_COMMON,
                "chat_template_kwargs": {"enable_thinking": thinks},
            }
            yield Served(f"{name}-{profile}", serving, sampling, both_modes=False, thinks=thinks)


def configuration(replicas: Sequence[Upstream], urls: Mapping[str, str]) -> str:
    """Return LiteLLM's configuration; no secret is in it.

    Args:
        replicas: What `upstreams` returned.
        urls: What `doors` returned.
    """
    models = [
        {
            "model_name": each.name,
            "litellm_params": {
                "model": f"hosted_vllm/{upstream.names[0]}",
                "api_base": f"{urls[upstream.replica]}/v1",
                "api_key": "os.environ/DOOR_KEY" if upstream.keyed else "none",
                # vLLM's /v1/responses takes neither top_k nor chat_template_kwargs.
                "use_chat_completions_api": True,
                **{key: value for key, value in each.sampling.items() if key in _OPENAI},
                # Elsewhere /v1/responses would lose them.
                "extra_body": {
                    key: value for key, value in each.sampling.items() if key not in _OPENAI
                },
            },
            "model_info": {"id": f"{upstream.replica}/{each.name}", "replica": upstream.replica},
        }
        for each in served(replicas)
        for upstream in each.upstreams
    ]
    content = {
        "model_list": models,
        "router_settings": {
            # Which replica is asked is decided by gateway.py, at each try. It also tries again
            # what has failed with a status of its own; this is for what only LiteLLM sees: a
            # stream of /v1/messages or /v1/responses that ends before its first token.
            "num_retries": max(1, len(replicas) - 1),
            # LiteLLM would wait for as long as the door's Retry-After says.
            "retry_policy": {"ServiceUnavailableErrorRetries": 0},
            "disable_cooldowns": True,
        },
        "litellm_settings": {"telemetry": False, "request_timeout": _REQUEST_TIMEOUT},
        "general_settings": {"disable_spend_logs": True},
    }
    return (
        "# Made by deploys/gateway.py from the inventory; changes here do not last.\n"
        + yaml.dump(content, Dumper=_Dumper, sort_keys=False)
    )


def environment(keys: Sequence[str]) -> str:
    """Return the file of the gateway's secrets, as systemd's EnvironmentFile reads it.

    Args:
        keys: The fleet's API keys, the first for our own requests.
    """
    digests = ",".join(hashlib.sha256(key.encode()).hexdigest() for key in keys)
    return f"DOOR_KEY={keys[0]}\nCLIENT_KEYS={digests}\n"


def unit(text: str, root: str, bind: str, port: int, trusted: bool) -> str:
    """Return the gateway's unit.

    Args:
        text: The unit with ROOT, BIND, PORT in place of what they are.
        root: Folder of everything on the host.
        bind: Address on which it listens.
        port: TCP port.
        trusted: A door's certificate lies in the gateway's folder.
    """
    text = text.replace("ROOT", root).replace("BIND", bind).replace("PORT", str(port))
    return "".join(
        line for line in text.splitlines(keepends=True) if trusted or "doors.pem" not in line
    )


def listing(names: Iterable[Served]) -> str:
    """Return the names in one line, each with the replicas that serve it."""
    parts = (
        f"{each.name} ({', '.join(upstream.replica for upstream in each.upstreams)})"
        for each in names
    )
    return ", ".join(parts)


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


def client_url(fleet: Fleet) -> str:
    """Return the gateway's URL as clients write it, without a path.

    Args:
        fleet: The fleet.

    Raises:
        PlanError: It has no gateway.
    """
    gateway = needed(fleet)
    place = fleet.sparks[gateway.spark] if gateway.spark else gateway
    address = "127.0.0.1" if place.local else place.ssh_hostname or str(gateway.spark)
    return f"http://{bracketed(address)}:{gateway.port}"
