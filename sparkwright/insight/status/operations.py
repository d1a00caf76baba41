"""The end of a run: where its replicas serve, how to ask them, and what comes next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
from pyinfra import state
from pyinfra.api.state import StateStage

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.operations import is_dry_run, would_change
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.recipe.questions import example
from sparkwright.declared.recipe.recipe import Answers
from sparkwright.run.ending import at_end
from sparkwright.run.spark import fleet_of
from sparkwright.run.target import Target, target_of


@cache
def announce() -> None:
    """Have this run end by saying where its replicas serve; further calls do nothing."""
    at_end(_say)


def _say() -> None:
    if state.failed_hosts:
        return
    if is_dry_run():
        todo = f"Nothing was changed. To do it: {next_line('apply')}"
        click.echo(f"\n{todo if would_change() else 'Nothing would change.'}")
    elif state.current_stage == StateStage.Disconnect:
        hosts = state.active_hosts
        targets = [seat for host in hosts for seat in target_of(host).chosen_seats]
        changed = any(
            data.operation_meta.did_change() for host in hosts for data in state.ops[host].values()
        )
        try:
            lines = [*ending([*_serving(targets)], targets[0].fleet, changed)]
        except PlanError as error:
            lines = [str(error)]
        click.echo("\n" + "\n".join(plain(line) for line in "\n".join(lines).splitlines()))


def _serving(targets: list[Target]) -> Iterator[ServedReplica]:
    """Yield the replicas of Sparks, as clients reach them."""
    # Only the end of a run needs them.
    from sparkwright.insight.monitoring.targets import targets as doors

    heads = {own.replica: own for own in targets if own.is_head and own.replica}
    if not heads:
        return
    fleet = fleet_of(next(iter(heads.values())).fleet)
    settings = {name: own.settings for name, own in heads.items()}
    replicas = {name: fleet.replicas[name] for name in heads}
    for door in doors(Fleet(fleet.source, fleet.sparks, replicas), settings, record=False):
        own, authority = heads[door.replica], None
        if own.settings.tls == "own":
            from sparkwright.door.certificates import authority_file

            authority = str(authority_file(own.fleet))
        assert own.recipe
        yield ServedReplica(
            replica=door.replica,
            url=door.url,
            names=tuple(own.recipe.models),
            keyed=door.keyed,
            authority=authority,
            answers=own.recipe.answers,
        )


@dataclass(frozen=True)
class ServedReplica:
    """A replica that serves: its door's URL, its models' names, whether a door asks for a key.

    Attributes:
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
