"""OpenClaw's configuration for the gateway."""

from pathlib import Path

import pytest
import yaml

from deploys.openclaw import main
from deploys.plan.errors import PlanError
from deploys.plan.fleet_file import load_fleet
from deploys.plan.gateway import client_url
from deploys.plan.recipes import recipe_names
from tests.unit.test_gateway import SPARKS, written

# What OpenClaw's schema takes, by src/config/zod-schema.core.ts and zod-schema.agent-defaults.ts of
# github.com/openclaw/openclaw at 0046389: every object refuses other keys.
PROVIDER = {"baseUrl", "apiKey", "auth", "api", "headers", "authHeader", "models"}
MODEL = {"id", "name", "api", "reasoning", "input", "cost", "contextWindow", "maxTokens", "compat"}
COMPAT = {
    "supportsDeveloperRole",
    "supportsReasoningEffort",
    "maxTokensField",
    "thinkingFormat",
}


def test_openclaw_gets_all_names_and_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, f"{SPARKS}gateway: {{spark: spark-a, port: 4444}}\n")
    assert main([str(path)]) == 0
    content = yaml.safe_load(capsys.readouterr().out)
    assert set(content) == {"models", "agents"}
    provider = content["models"]["providers"]["sparkwright"]
    assert set(provider) <= PROVIDER
    assert provider["baseUrl"] == "http://192.0.2.1:4444/v1"
    assert provider["apiKey"] == "${SPARKWRIGHT_API_KEY}"
    for model in provider["models"]:
        assert set(model) <= MODEL
        assert set(model["compat"]) <= COMPAT
        assert (model["contextWindow"], model["maxTokens"]) == (262144, 32768)
    thinking = {model["id"]: model["compat"].get("thinkingFormat") for model in provider["models"]}
    assert thinking["qwen3.6-35b"] == "qwen-chat-template"
    assert thinking["qwen3.6-35b-instruct-general"] is None
    first = content["agents"]["defaults"]["model"]["primary"]
    assert first == "sparkwright/qwen3.6-35b"


def test_openclaw_without_a_gateway(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, SPARKS)
    assert main([str(path)]) == 1
    assert "found no gateway" in capsys.readouterr().err
    with pytest.raises(PlanError):
        client_url(load_fleet(path, recipe_names()))
