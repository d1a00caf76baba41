"""What a run says at its end: where the replicas serve, how to ask them, and what comes next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkwright.common.command_line import next_line
from sparkwright.declared.recipe.questions import example
from sparkwright.declared.recipe.recipe import Answers


@dataclass(frozen=True)
class ServedReplica:
    """A replica that serves.

    Attributes:
        url: Of its door, without a path.
        names: What clients ask for.
        keyed: Its door asks for a key.
        authority: Path of the certificate that a client has to trust; None for none of our own.
    """

    replica: str
    url: str
    names: tuple[str, ...]
    keyed: bool
    authority: str | None = None
    answers: Answers = "chat"


def ending(serving: Sequence[ServedReplica], inventory: Path, changed: bool) -> Iterator[str]:
    """Yield the lines at the end of a run, which are few if it has changed nothing."""
    for each in serving:
        yield f"{each.replica} serves {', '.join(each.names)} at {each.url}/v1"
    if not changed:
        yield "Nothing was changed."
    if not (changed and serving):
        return
    # Most clients chat.
    first = next((each for each in serving if each.answers == "chat"), serving[0])
    key = next_line("keys show")
    yield "\nAsk it, from this folder:"
    yield f"  {_curl(first, key)}"
    with_key = f" (api_key: the output of `{key}`)" if first.keyed else ""
    yield f"\nFor clients{with_key}:"
    yield f"  openai      OpenAI(base_url={json.dumps(f'{first.url}/v1')}, api_key=…)"
    if first.answers == "chat":
        yield f"  Open WebUI  OPENAI_API_BASE_URL={first.url}/v1 OPENAI_API_KEY=…"
        yield f"  OpenClaw    {next_line('openclaw', '--into ~/.openclaw/openclaw.json')}"
    if first.authority:
        yield f"  They trust {first.authority}: curl --cacert, SSL_CERT_FILE."
    yield f"\nKeep {inventory.with_suffix('.lock.yaml')} in git: the exact versions that serve."
    keys = inventory.with_suffix(".keys")
    if first.keyed and keys.exists():
        yield f"Keep a copy of {keys} in a safe place, and out of git: the API keys."
    verify, status = next_line("verify"), next_line("status")
    yield f"Next: {verify}   (prove it)   {status}   (watch it)"


def _curl(serving: ServedReplica, key: str) -> str:
    question = example(serving.answers, serving.names[0])
    trust = f" --cacert {shlex.quote(serving.authority)}" if serving.authority else ""
    lines = [f"curl{trust} {serving.url}{question.path}"]
    if serving.keyed:
        lines.append(f'--header "Authorization: Bearer $({key})"')
    lines += [
        "--header 'Content-Type: application/json'",
        f"--data {shlex.quote(json.dumps(question.body))}",
    ]
    return " \\\n    ".join(lines)
