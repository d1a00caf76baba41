"""OpenClaw's configuration for the gateway."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from deploys.plan.gateway_names import Served

PROVIDER = "sparkwright"
# OpenClaw reads it from its own environment, so that the file holds no secret.
KEY_VARIABLE = "SPARKWRIGHT_API_KEY"
# Tokens of an answer; seed 001 has the same, of a context of 262,144.
_LONGEST_ANSWER = 32768


def openclaw(names: Sequence[Served], url: str) -> str:
    """Return what OpenClaw needs in ``~/.openclaw/openclaw.json``, in JSON.

    Only keys that its schema has are used (src/config/zod-schema.core.ts): it refuses others.

    Args:
        names: What the gateway serves; the first is the default.
        url: The gateway's, without a path.
    """
    provider = {
        "baseUrl": f"{url}/v1",
        "apiKey": f"${{{KEY_VARIABLE}}}",
        "api": "openai-completions",
        "models": [_model(name) for name in names],
    }
    content = {
        "models": {"mode": "merge", "providers": {PROVIDER: provider}},
        "agents": {"defaults": {"model": {"primary": f"{PROVIDER}/{names[0].name}"}}},
    }
    return json.dumps(content, indent=2) + "\n"


def _model(served: Served) -> dict[str, Any]:
    model: dict[str, Any] = {
        "id": served.name,
        "name": served.name,
        "reasoning": served.thinks,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    if context := served.context:
        model |= {"contextWindow": context, "maxTokens": min(_LONGEST_ANSWER, context // 2)}
    compat: dict[str, Any] = {
        "supportsDeveloperRole": False,
        "supportsReasoningEffort": False,
        "maxTokensField": "max_tokens",
    }
    if served.both_modes:
        # OpenClaw then says whether to think; a profile has said so already.
        compat["thinkingFormat"] = "qwen-chat-template"
    return model | {"compat": compat}
