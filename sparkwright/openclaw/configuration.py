"""OpenClaw's configuration for the models of a fleet, by its gateway or its doors."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import nearest
from sparkwright.gateway.names import ALIASES, ModelAlias

PROVIDER = "sparkwright"
# OpenClaw reads it from its own environment, so that the file holds no secret.
KEY_VARIABLE = "SPARKWRIGHT_API_KEY"
# Tokens of an answer, and the part of the context that stays free for one (a sixteenth): AEON-7 has
# 32,768, and uses 245,760 of a context of 262,144.
_LONGEST_ANSWER, _FOR_THE_ANSWER = 32768, 16
_DEFAULT = {"id": "main", "default": True}


@dataclass(frozen=True)
class Endpoint:
    """The server that OpenClaw asks for models.

    Attributes:
        provider: The name under which OpenClaw lists its models.
        url: The gateway's or a door's, without a path.
        keyed: It requires a key.
        names: The names that it serves; the first one of the first endpoint is OpenClaw's default.
    """

    provider: str
    url: str
    keyed: bool
    names: Sequence[ModelAlias]

    def reference(self, served: ModelAlias) -> str:
        """Return a model's name as OpenClaw writes it."""
        return f"{self.provider}/{served.name}"


def openclaw(endpoints: Sequence[Endpoint], bindings: Mapping[str, str]) -> dict[str, Any]:
    """Return our part of ``~/.openclaw/openclaw.json``.

    Its fields are those of AEON-7 (docs/openclaw.md at ca64651). Only keys of OpenClaw's schema
    are used (src/config/zod-schema.core.ts): it refuses others.

    Args:
        endpoints: At least one, with at least one name.
        bindings: Channel -> the name, or its alias, that answers there.

    Raises:
        PlanError: A channel is bound to a name that nothing serves.
    """
    known: dict[str, tuple[Endpoint, ModelAlias]] = {}
    for each in endpoints:
        for name in each.names:
            known.setdefault(name.name, (each, name))
    # If two doors serve the same model, its alias stands for the first of them.
    presets = [known[name] for name in ALIASES if name in known]
    known |= {ALIASES[name.name]: (each, name) for each, name in presets}
    if unknown := [name for name in bindings.values() if name not in known]:
        problems = (f"--bind: found {each}; {nearest(each, known)}" for each in unknown)
        raise PlanError(*problems)
    bound = {channel: known[name] for channel, name in bindings.items()}
    first = endpoints[0].names[0]
    defaults: dict[str, Any] = {"model": {"primary": endpoints[0].reference(first)}}
    if presets:
        defaults["models"] = {
            each.reference(name): {"alias": ALIASES[name.name], "params": _params(name)}
            for each, name in presets
        }
    if first.both_modes:
        # The chat template knows only on and off; OpenClaw sends on for every level above off.
        defaults["thinkingDefault"] = "low"
    content: dict[str, Any] = {
        "models": {
            "mode": "merge",
            "providers": {each.provider: _provider(each) for each in endpoints},
        },
        "agents": {"defaults": defaults},
    }
    models = [*presets, *bound.values()]
    if agents := {_agent_id(name): _agent(each, name) for each, name in models}:
        # OpenClaw's own agent still answers on channels without a binding.
        content["agents"]["list"] = [_DEFAULT, *agents.values()]
    if bound:
        content["bindings"] = [
            {"agentId": _agent_id(name), "match": {"channel": channel, "accountId": "*"}}
            for channel, (_, name) in bound.items()
        ]
    return content


def has_agents(own: Mapping[str, Any]) -> bool:
    """Tell whether an owner's configuration has agents of its own.

    OpenClaw kept them in ``agents.list``, and since 2026.9 keeps them in ``agents.entries``.
    """
    agents = own.get("agents")
    return isinstance(agents, Mapping) and not agents.keys().isdisjoint(("list", "entries"))


def merged(own: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return an owner's configuration with ours merged into it.

    Providers and models under a name of ours are replaced; the owner's other settings stay. If the
    owner has agents, none is added, and so no binding: only the owner knows which should answer.

    Args:
        own: The owner's, as parsed JSON.
        ours: What `openclaw` returned.

    Raises:
        PlanError: A key of the owner's has a value of the wrong type.
    """
    result, added = copy.deepcopy(dict(own)), copy.deepcopy(dict(ours))
    if has_agents(own):
        added["agents"].pop("list", None)
        added.pop("bindings", None)
    _fill(result, added, "")
    for path in (("models", "providers"), ("agents", "defaults", "models")):
        theirs, new = _at(result, path), _at(added, path)
        for name in [name for name in theirs if _is_ours(name) and name not in new]:
            del theirs[name]
        theirs.update(new)
    _renew_default(result["agents"]["defaults"], added)
    return result


def _renew_default(defaults: dict[str, Any], ours: Mapping[str, Any]) -> None:
    """Replace a default model of ours that the fleet no longer serves."""
    current = defaults["model"]
    primary = current.get("primary") if isinstance(current, Mapping) else current
    offered = {
        f"{name}/{model['id']}"
        for name, provider in ours["models"]["providers"].items()
        for model in provider["models"]
    }
    if isinstance(primary, str) and _is_ours(primary) and primary not in offered:
        new = ours["agents"]["defaults"]["model"]
        defaults["model"] = {**current, **new} if isinstance(current, Mapping) else new


def _fill(result: dict[str, Any], ours: Mapping[str, Any], where: str) -> None:
    """Add the missing keys, level by level."""
    for key, value in ours.items():
        if key not in result:
            result[key] = value
        # OpenClaw also accepts the default model's name alone.
        elif isinstance(value, Mapping) and not (key == "model" and isinstance(result[key], str)):
            _fill(_mapping(result[key], f"{where}{key}"), value, f"{where}{key}.")


def _at(content: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    for key in path:
        content = _mapping(content.get(key, {}), ".".join(path))
    return content


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PlanError(f"{where}: found {type(value).__name__}; expected a mapping")
    return value


def _is_ours(name: str) -> bool:
    """Tell whether a provider, or a model of one, has a name that only we give."""
    return re.match(rf"{PROVIDER}(-|/|$)", name) is not None


def _provider(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "baseUrl": f"{endpoint.url}/v1",
        # OpenClaw requires one, even where the server does not.
        "apiKey": f"${{{KEY_VARIABLE}}}" if endpoint.keyed else "none",
        "api": "openai-completions",
        "models": [_model(name) for name in endpoint.names],
    }


def _model(served: ModelAlias) -> dict[str, Any]:
    model: dict[str, Any] = {
        "id": served.name,
        "name": served.name,
        "reasoning": served.thinks,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    if context := served.context:
        model |= {
            "contextWindow": context,
            "contextTokens": context - context // _FOR_THE_ANSWER,
            "maxTokens": min(_LONGEST_ANSWER, context // 2),
        }
    compat: dict[str, Any] = {
        "supportsDeveloperRole": False,
        "supportsReasoningEffort": False,
        "maxTokensField": "max_tokens",
        "requiresStringContent": False,
        "supportsStrictMode": False,
    }
    if served.both_modes:
        # OpenClaw then says in each request whether to think; a profile fixes that.
        compat["thinkingFormat"] = "qwen-chat-template"
    return model | {"compat": compat}


def _params(served: ModelAlias) -> dict[str, Any]:
    """Return the sampling parameters; OpenClaw 2026.9.6 itself sends no top_p or top_k."""
    rest = dict(served.sampling)
    return {"temperature": rest.pop("temperature"), "extra_body": rest}


def _agent(endpoint: Endpoint, served: ModelAlias) -> dict[str, Any]:
    agent: dict[str, Any] = {"id": _agent_id(served), "model": endpoint.reference(served)}
    if served.name in ALIASES:
        agent["params"] = _params(served)
    if served.thinks:
        # A reader sees the thinking as it is generated.
        agent["reasoningDefault"] = "stream"
    return agent | {"fastModeDefault": False}


def _agent_id(served: ModelAlias) -> str:
    """Return an id that OpenClaw accepts: small letters, digits, '_' and '-', at most 64."""
    name = ALIASES.get(served.name, served.name)
    return f"agent-{re.sub(r'[^a-z0-9_-]+', '-', name.lower())}"[:64].rstrip("-")
