"""OpenClaw's configuration for what a fleet serves, by its gateway or at its doors."""

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
# Tokens of an answer, and of the context the share that stays free for one: AEON-7 has 32,768,
# and 245,760 of a context of 262,144.
_LONGEST_ANSWER, _FOR_THE_ANSWER = 32768, 16
_DEFAULT = {"id": "main", "default": True}


@dataclass(frozen=True)
class Endpoint:
    """The server that OpenClaw asks for models.

    Attributes:
        provider: The name under which OpenClaw has its models.
        url: The gateway's or a door's, without a path.
        keyed: It asks for a key.
        names: What it serves; the first name of the first endpoint is OpenClaw's default.
    """

    provider: str
    url: str
    keyed: bool
    names: Sequence[ModelAlias]

    def reference(self, served: ModelAlias) -> str:
        """A model's name as OpenClaw writes it."""
        return f"{self.provider}/{served.name}"


def openclaw(endpoints: Sequence[Endpoint], bindings: Mapping[str, str]) -> dict[str, Any]:
    """Return what OpenClaw needs in ``~/.openclaw/openclaw.json``.

    Its fields are those of AEON-7 (docs/openclaw.md at ca64651). Only keys that
    OpenClaw's schema has are used (src/config/zod-schema.core.ts): it refuses others.

    Args:
        endpoints: At least one, with at least one name.
        bindings: Channel -> the name, or its alias, that answers there.

    Raises:
        PlanError: A channel is to have a name that nothing serves.
    """
    known: dict[str, tuple[Endpoint, ModelAlias]] = {}
    for each in endpoints:
        for name in each.names:
            known.setdefault(name.name, (each, name))
    # Where two doors serve the same, an alias stands for the first of them.
    presets = [known[name] for name in ALIASES if name in known]
    known |= {ALIASES[name.name]: (each, name) for each, name in presets}
    if unknown := [wanted for wanted in bindings.values() if wanted not in known]:
        problems = (f"--bind: found {each}; expected {nearest(each, known)}" for each in unknown)
        raise PlanError(*problems)
    bound = [known[wanted] for wanted in bindings.values()]
    first = (endpoints[0], endpoints[0].names[0])
    defaults: dict[str, Any] = {"model": {"primary": first[0].reference(first[1])}}
    if presets:
        defaults["models"] = {
            each.reference(name): {"alias": ALIASES[name.name], "params": _params(name)}
            for each, name in presets
        }
    if first[1].both_modes:
        # The template knows on and off; OpenClaw makes the one of everything above off.
        defaults["thinkingDefault"] = "low"
    content: dict[str, Any] = {
        "models": {
            "mode": "merge",
            "providers": {each.provider: _provider(each) for each in endpoints},
        },
        "agents": {"defaults": defaults},
    }
    if agents := {_agent_id(name): _agent(each, name) for each, name in [*presets, *bound]}:
        # OpenClaw's own agent stays the one that answers where no binding says another.
        content["agents"]["list"] = [_DEFAULT, *agents.values()]
    if bindings:
        content["bindings"] = [
            {
                "agentId": _agent_id(known[wanted][1]),
                "match": {"channel": channel, "accountId": "*"},
            }
            for channel, wanted in bindings.items()
        ]
    return content


def has_agents(own: Mapping[str, Any]) -> bool:
    """Tell whether an owner's configuration has agents of its own.

    OpenClaw has had them in ``agents.list``, and keeps them in ``agents.entries`` since 2026.9.
    """
    agents = own.get("agents")
    return isinstance(agents, Mapping) and not agents.keys().isdisjoint(("list", "entries"))


def merged(own: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return an owner's configuration with ours in it.

    Providers and models under a name of ours are replaced; of the rest all that the owner has said
    stays. To an owner's agents none is added, and so no binding: OpenClaw asks of whoever has
    several which of them has what, and only the owner knows.

    Args:
        own: The owner's, as parsed JSON.
        ours: What `openclaw` returned.

    Raises:
        PlanError: A key of the owner's holds something else than OpenClaw takes there.
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
    """Give up a default model of ours that is no more."""
    said = defaults["model"]
    primary = said.get("primary") if isinstance(said, Mapping) else said
    offered = {
        f"{name}/{model['id']}"
        for name, provider in ours["models"]["providers"].items()
        for model in provider["models"]
    }
    if isinstance(primary, str) and _is_ours(primary) and primary not in offered:
        new = ours["agents"]["defaults"]["model"]
        defaults["model"] = {**said, **new} if isinstance(said, Mapping) else new


def _fill(result: dict[str, Any], ours: Mapping[str, Any], where: str) -> None:
    """Add what is missing, key by key."""
    for key, value in ours.items():
        at = f"{where}{key}"
        if key not in result:
            result[key] = value
        elif isinstance(value, Mapping) and key == "model" and isinstance(result[key], str):
            # OpenClaw takes the default model's name alone, too.
            continue
        elif isinstance(value, Mapping):
            if not isinstance(result[key], dict):
                raise PlanError(_unexpected(at, result[key]))
            _fill(result[key], value, f"{at}.")


def _at(content: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    found: Any = content
    for key in path:
        found = found.get(key, {})
        if not isinstance(found, dict):
            raise PlanError(_unexpected(".".join(path), found))
    assert isinstance(found, dict)
    return found


def _unexpected(where: str, found: object) -> str:
    return f"{where}: found {type(found).__name__}; expected a mapping"


def _is_ours(name: str) -> bool:
    """Tell whether a provider, or a model of one, has a name that only we give."""
    return re.match(rf"{PROVIDER}(-|/|$)", name) is not None


def _provider(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "baseUrl": f"{endpoint.url}/v1",
        # OpenClaw wants one, whether or not it is asked for.
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
        # OpenClaw then says whether to think; a profile has said so already.
        compat["thinkingFormat"] = "qwen-chat-template"
    return model | {"compat": compat}


def _params(served: ModelAlias) -> dict[str, Any]:
    """Return the defaults that only we set: OpenClaw 2026.9.6 sends no top_p or top_k."""
    rest = dict(served.sampling)
    return {"temperature": rest.pop("temperature"), "extra_body": rest}


def _agent(endpoint: Endpoint, served: ModelAlias) -> dict[str, Any]:
    agent: dict[str, Any] = {"id": _agent_id(served), "model": endpoint.reference(served)}
    if served.name in ALIASES:
        agent["params"] = _params(served)
    if served.thinks:
        # Whoever reads along sees the thinking as it comes.
        agent["reasoningDefault"] = "stream"
    return agent | {"fastModeDefault": False}


def _agent_id(served: ModelAlias) -> str:
    """An id that OpenClaw takes: small letters, digits, '_' and '-', at most 64."""
    name = ALIASES.get(served.name, served.name)
    return f"agent-{re.sub(r'[^a-z0-9_-]+', '-', name.lower())}"[:64].rstrip("-")
