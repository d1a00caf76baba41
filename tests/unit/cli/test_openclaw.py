"""OpenClaw's configuration: what it says, and what it leaves to its owner."""

import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkwright.declared.fleet.settings import Settings
from tests.commands import sparkwright
from tests.makers.gateway import SPARKS, written

GATEWAY = f"{SPARKS}gateway: {{spark: spark-a, port: 4444}}\n"
# AEON-7's model, which one engine serves under three names.
DFLASH = """\
sparks: {spark-a: {ssh_hostname: 192.0.2.1}}
replicas: {chat: {recipe: qwen3.6-35b-nvfp4-dflash, sparks: [spark-a]}}
"""
# What OpenClaw's schema takes, by src/config/zod-schema.core.ts, zod-schema.agent-defaults.ts,
# zod-schema.agent-runtime.ts and zod-schema.agents.ts of github.com/openclaw/openclaw: every object
# refuses other keys. OpenClaw 2026.9.6 itself takes the whole.
SCHEMA: dict[str, Any] = {
    "models": {"mode": {}, "providers": {"*": {
        "baseUrl": {}, "apiKey": {}, "api": {},
        "models": {"*": {
            "id": {}, "name": {}, "reasoning": {}, "input": {}, "cost": {},
            "contextWindow": {}, "contextTokens": {}, "maxTokens": {},
            "compat": {
                "supportsDeveloperRole": {}, "supportsReasoningEffort": {}, "maxTokensField": {},
                "thinkingFormat": {}, "requiresStringContent": {}, "supportsStrictMode": {},
            },
        }},
    }}},
    "agents": {
        "defaults": {
            "model": {"primary": {}}, "thinkingDefault": {},
            "models": {"*": {"alias": {}, "params": {}}},
        },
        "list": {"*": {
            "id": {}, "default": {}, "model": {}, "params": {}, "reasoningDefault": {},
            "fastModeDefault": {},
        }},
    },
}  # fmt: skip
Ask = Callable[[str], dict[str, Any]]
Printed = pytest.CaptureFixture[str]


def check(content: Any, schema: Mapping[str, Any]) -> None:
    if not schema:
        return
    pairs = enumerate(content) if isinstance(content, list) else content.items()
    for key, value in pairs:
        assert key in schema or "*" in schema, key
        check(value, schema.get(key, schema.get("*", {})))


@pytest.fixture(autouse=True)
def group_data(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The settings of the site, in the place of those of this project."""
    data: dict[str, Any] = {}
    read = lambda fleet: dict.fromkeys(fleet.replicas, Settings(**data))  # noqa: E731
    monkeypatch.setattr("sparkwright.cli.files.settings_of_site", read)
    return data


@pytest.fixture
def ask(tmp_path: Path, capsys: Printed) -> Ask:
    def ask(text: str) -> dict[str, Any]:
        assert sparkwright("openclaw", inventory=written(tmp_path, text)) == 0
        content: dict[str, Any] = json.loads(capsys.readouterr().out)
        check(content, SCHEMA)
        return content

    return ask


def test_a_gateway_gives_all_its_names_and_no_secret(ask: Ask) -> None:
    content = ask(GATEWAY)
    provider = content["models"]["providers"]["sparkwright"]
    assert provider["baseUrl"] == "http://192.0.2.1:4444/v1"
    assert provider["apiKey"] == "${SPARKWRIGHT_API_KEY}"
    for model in provider["models"]:
        assert (model["contextWindow"], model["contextTokens"]) == (262144, 245760)
        assert model["maxTokens"] == 32768
        assert model["compat"]["requiresStringContent"] is False
        assert model["compat"]["supportsStrictMode"] is False
    thinking = {model["id"]: model["compat"].get("thinkingFormat") for model in provider["models"]}
    assert thinking["qwen3.6-35b"] == "qwen-chat-template"
    assert thinking["qwen3.6-35b-instruct-general"] is None
    defaults = content["agents"]["defaults"]
    assert defaults == {"model": {"primary": "sparkwright/qwen3.6-35b"}, "thinkingDefault": "low"}


def test_without_a_gateway_the_doors_are_asked(ask: Ask) -> None:
    """Where there are several, each has a provider of its own; profiles are the gateway's."""
    content = ask(SPARKS)
    providers = content["models"]["providers"]
    assert {name: (each["baseUrl"], each["apiKey"]) for name, each in providers.items()} == {
        "sparkwright-chat-a": ("http://192.0.2.1:8000/v1", "${SPARKWRIGHT_API_KEY}"),
        "sparkwright-chat-b": ("http://192.0.2.2:8001/v1", "none"),
    }
    assert [model["id"] for model in providers["sparkwright-chat-a"]["models"]] == ["qwen3.6-35b"]
    primary = content["agents"]["defaults"]["model"]["primary"]
    assert primary == "sparkwright-chat-a/qwen3.6-35b"


def test_fast_and_deep_are_as_their_author_has_them(ask: Ask) -> None:
    content = ask(DFLASH)
    assert set(content["models"]["providers"]) == {"sparkwright"}
    # By params.extra_body they reach the engine, by names of their own they do not.
    more = {"top_p": 0.95, "top_k": 64, "repetition_penalty": 1.05}
    sampled = {"temperature": 0.7, "extra_body": more}
    greedy = {"temperature": 0.0, "extra_body": {"top_p": 1.0}}
    assert content["agents"]["defaults"]["models"] == {
        "sparkwright/qwen36-fast": {"alias": "fast", "params": greedy},
        "sparkwright/qwen36-deep": {"alias": "deep", "params": sampled},
    }
    # OpenClaw refuses several agents of which none is the default.
    main, *agents = content["agents"]["list"]
    assert main == {"id": "main", "default": True}
    assert agents == [
        {
            "id": f"agent-{alias}",
            "model": f"sparkwright/qwen36-{alias}",
            "params": params,
            "reasoningDefault": "stream",
            "fastModeDefault": False,
        }
        for alias, params in (("fast", greedy), ("deep", sampled))
    ]


def test_a_door_that_only_its_spark_reaches(
    tmp_path: Path, capsys: Printed, group_data: dict[str, Any]
) -> None:
    group_data["bind"] = "127.0.0.1"
    assert sparkwright("openclaw", inventory=written(tmp_path, DFLASH)) == 1
    assert "replicas.chat: found bind 127.0.0.1, where only spark-a" in capsys.readouterr().err


OWNERS: dict[str, Any] = {
    "models": {"providers": {"openai": {"baseUrl": "https://example.org", "models": []}}},
    "agents": {
        "defaults": {"model": "openai/own", "thinkingDefault": "high", "workspace": "~/w"},
        "list": [{"id": "own", "default": True}],
    },
    "channels": {"telegram": {"enabled": True}},
    "bindings": [{"agentId": "own", "match": {"channel": "telegram"}}],
}


class TestInto:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "home" / "openclaw.json"

    def into(self, file: Path, text: str = DFLASH) -> int:
        return sparkwright(
            "openclaw", "--into", str(file), inventory=written(file.parents[1], text)
        )

    def test_a_new_file_is_its_owners_alone(self, file: Path) -> None:
        assert self.into(file) == 0
        assert "sparkwright" in json.loads(file.read_text())["models"]["providers"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_the_file_as_it_was_is_kept(self, file: Path, capsys: Printed) -> None:
        file.parent.mkdir()
        file.write_text(json.dumps(OWNERS))
        file.chmod(0o640)
        assert self.into(file) == 0
        kept = file.with_name("openclaw.json.before-sparkwright")
        assert json.loads(kept.read_text()) == OWNERS
        result = json.loads(file.read_text())
        providers = result["models"].pop("providers")
        assert set(providers) == {"openai", "sparkwright"}
        assert providers["openai"] == OWNERS["models"]["providers"]["openai"]
        assert result == {**OWNERS, "models": {"mode": "merge"}}
        assert {stat.S_IMODE(path.stat().st_mode) for path in (file, kept)} == {0o640}
        changed = file.read_text()
        assert self.into(file) == 0
        assert file.read_text() == changed
        assert json.loads(kept.read_text()) == OWNERS
        said = f"{file}: has our providers, and all else as it was (before: {kept})"
        assert capsys.readouterr().out.splitlines()[-1] == said

    def test_what_is_ours_follows_the_inventory(self, file: Path) -> None:
        """A provider that is no more is taken out; the owner's of a like name stays."""
        file.parent.mkdir()
        file.write_text(json.dumps({"models": {"providers": {"sparkwrights": {}}}}))
        assert self.into(file) == 0
        assert self.into(file, SPARKS) == 0
        assert set(json.loads(file.read_text())["models"]["providers"]) == {
            "sparkwrights",
            "sparkwright-chat-a",
            "sparkwright-chat-b",
        }

    @pytest.mark.parametrize(
        "text",
        [
            "{models: {} /* mine */}",
            "[]",
            "",
            '{"models": []}',
            '{"models": {"providers": []}}',
            "[" * 100_000,
        ],
    )
    def test_what_would_lose_something_is_left_alone(
        self, file: Path, text: str, capsys: Printed
    ) -> None:
        file.parent.mkdir()
        file.write_text(text)
        assert self.into(file) == 1
        assert file.read_text() == text
        assert [path.name for path in file.parent.iterdir()] == ["openclaw.json"]
        assert "take over by hand what this command prints" in capsys.readouterr().err


def test_replicas_that_do_not_chat_are_left_out(tmp_path: Path, capsys: Printed) -> None:
    sparks = "sparks: {spark-a: {ssh_hostname: 192.0.2.1}, spark-b: {ssh_hostname: 192.0.2.2}}\n"
    texts = "  texts: {recipe: qwen3-embedding-0.6b, sparks: [spark-b]}\n"
    chat = "  chat: {recipe: qwen3.8-27b-nvidia, sparks: [spark-a]}\n"
    gateway = "gateway: {spark: spark-a}\n"
    for end in ("", gateway):
        file = written(tmp_path, f"{sparks}replicas:\n{texts}{chat}{end}")
        assert sparkwright("openclaw", inventory=file) == 0
        said = capsys.readouterr().out
        assert "qwen3.8-27b" in said
        assert "embedding" not in said
        file = written(tmp_path, f"{sparks}replicas:\n{texts}{end}")
        assert sparkwright("openclaw", inventory=file) == 1
        assert "found no replica that chats; expected one for OpenClaw" in capsys.readouterr().err
