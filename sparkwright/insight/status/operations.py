"""The end of a run that has made replicas serve."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import click
from pyinfra import state
from pyinfra.api.state import StateStage

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.operations import is_dry_run, would_change
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.insight.status.ending import ServedReplica, ending
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
        own = heads[door.replica]
        recipe = own.recipe
        assert recipe
        yield ServedReplica(
            replica=door.replica,
            url=door.url,
            names=tuple(recipe.models),
            keyed=door.keyed,
            authority=_authority(own),
            answers=recipe.answers,
        )


def _authority(own: Target) -> str | None:
    """Return the path of the certificate that clients have to trust; None for none of ours."""
    if own.settings.tls != "own":
        return None
    from sparkwright.door.certificates import authority_file

    return str(authority_file(own.fleet))
