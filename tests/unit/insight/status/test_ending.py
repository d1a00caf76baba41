"""What a run says at its end."""

import json
import shlex
from pathlib import Path

import pytest

from sparkwright.declared.recipe.recipe import Answers
from sparkwright.insight.status.operations import ServedReplica, ending

CHAT = ServedReplica("chat", "http://10.0.0.5:8000", ("qwen3.6-35b", "qwen"), keyed=True)
INVENTORY = Path("inventory/sparks.yaml")


@pytest.fixture(autouse=True)
def pyinfra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARKWRIGHT_PROGRAM", "SPARKWRIGHT_LINE"):
        monkeypatch.delenv(name, raising=False)


def said(serving: ServedReplica, changed: bool = True, inventory: Path = INVENTORY) -> str:
    return "\n".join(ending([serving], inventory, changed))


def question(text: str) -> list[str]:
    begin = text.index("curl ")
    return shlex.split(text[begin : text.index("\n\n", begin)].replace("\\\n", " "))


def test_a_door_without_a_key_names_none_and_a_certificate_of_the_site_is_named() -> None:
    text = said(ServedReplica("chat", "http://10.0.0.5:8000", ("m",), keyed=False))
    assert "keys" not in text
    assert "Authorization" not in text
    tls = ServedReplica("chat", "https://a:8000", ("m",), True, "inventory/sparks.tls/ca.crt")
    assert "curl --cacert inventory/sparks.tls/ca.crt https://a:8000/v1/" in said(tls)


@pytest.mark.parametrize(
    ("answers", "path", "field"),
    [("embeddings", "/v1/embeddings", "input"), ("scores", "/v1/rerank", "documents")],
)
def test_one_that_does_not_chat_is_asked_for_what_it_answers(
    answers: Answers, path: str, field: str
) -> None:
    texts = ServedReplica("texts", "http://10.0.0.5:8001", ("t",), keyed=False, answers=answers)
    text = said(texts)
    words = question(text)
    assert words[1] == f"http://10.0.0.5:8001{path}"
    assert json.loads(words[-1]).keys() >= {"model", field}
    assert "OpenClaw" not in text
    assert "Open WebUI" not in text
    # Beside one that chats, that one is the example.
    both = "\n".join(ending([texts, CHAT], INVENTORY, changed=True))
    assert "texts serves t at http://10.0.0.5:8001/v1" in both
    assert "curl http://10.0.0.5:8000/v1/chat/completions" in both
