"""Make one release the one that serves."""

import time
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from deploys.facts.engine import Engines, Journal
from deploys.operations.messages import failing
from deploys.plan.ailments import hint
from deploys.plan.command import image_id
from deploys.plan.engine import SHARE, EngineState, problem
from deploys.plan.phases import phase
from deploys.plan.release import Release

# A start takes minutes: this often is soon enough to see, and seldom enough to cost nothing.
POLL_SECONDS = 2
# Seconds between two looks at the other Spark of a pair, and until it must have begun to start:
# longer than any engine takes to stop.
PEER_SECONDS, PEER_PATIENCE = 10, 300
JOURNAL_LINES = 30


@operation()
def serving(release: Release, peer: Host | None = None) -> Generator[PyinfraCommand, None, None]:
    """Serve `release`, and nothing else, now and after every boot.

    Other engines are stopped and disabled first: a Spark's memory holds one. A start in progress
    is joined. An engine that runs but does not answer fails the host and is left as it is: it may
    be at work on what others asked of it.

    Args:
        release: its files, weights and image are on the Spark.
        peer: the other Spark of a pair, on which this operation runs at the same time: an engine
            starts when both do.
    """
    unit = f"vllm@{release.id}.service"
    engines = _engines(release)
    ours = engines.units[release.id]
    changes = list(_switch(engines, release, unit))
    yield from changes
    if ours.active != "active":
        yield from _start(engines, release, unit, peer)
        engines = _engines(release)
    trouble = problem(engines, release.recipe.served_names) if release.ranks.rank == 0 else None
    if trouble:
        yield failing(
            f"{unit} is active, but {trouble}. "
            f"Look with `journalctl -u {unit}`; restart with `sudo systemctl restart {unit}`."
        )
    elif not changes and ours.active == "active":
        host.noop(f"{unit} serves {', '.join(release.recipe.served_names)}")


@operation()
def idle(root: str) -> Generator[StringCommand, None, None]:
    """Serve nothing, now and after every boot; weights, image and releases stay.

    Args:
        root: the folder that holds releases and the `current` link.
    """
    engines = host.get_fact(Engines, root=root)
    yield from _stop(engines, keep=None)
    yield from _share_nothing(engines)
    if engines.current:
        yield StringCommand("rm", QuoteString(f"{root}/current"))


def _engines(release: Release) -> EngineState:
    asked = {"url": release.url, "model": release.recipe.served_names[0]}
    is_head = release.ranks.rank == 0
    return host.get_fact(
        Engines, root=release.root, release=release.id, **(asked if is_head else {})
    )


def _switch(engines: EngineState, release: Release, unit: str) -> Generator[StringCommand]:
    """Leave `release` as the only engine that is enabled, current, and not stopped."""
    if any(engine.needs_reload for engine in engines.units.values()):
        yield StringCommand("systemctl daemon-reload")
    yield from _stop(engines, keep=release.id)
    if release.ranks.rank > 0 or not release.ranks.fabric:
        yield from _share_nothing(engines)
    if engines.current != release.id:
        link = QuoteString(f"{release.root}/current")
        yield StringCommand("ln -sfnT", QuoteString(f"releases/{release.id}"), link)
    if not engines.units[release.id].enabled:
        yield StringCommand("systemctl enable --quiet", QuoteString(unit))


def _stop(engines: EngineState, keep: str | None) -> Generator[StringCommand]:
    for engine in engines.units.values():
        stopped = engine.active in ("inactive", "failed") and not engine.enabled
        if engine.release != keep and not stopped:
            unit = QuoteString(f"vllm@{engine.release}.service")
            yield StringCommand("systemctl disable --quiet --now", unit)


def _share_nothing(engines: EngineState) -> Generator[StringCommand]:
    """A Spark that was the head of a pair, and is no more, offers nothing on the fabric."""
    if engines.shares:
        yield StringCommand("systemctl disable --quiet --now", SHARE)


def _start(
    engines: EngineState, release: Release, unit: str, peer: Host | None
) -> Generator[PyinfraCommand]:
    """Start the unit, or join its start, and show how it goes on; fail with what it said."""
    # A run begins anew: what was tried before counts no more, neither here nor on the peer.
    yield StringCommand("systemctl reset-failed", QuoteString(unit), "2>/dev/null; true")
    if not engines.units[release.id].starting:
        # Fails in seconds where the engine would take minutes to find no GPU.
        yield StringCommand(
            "docker run --rm --pull never --gpus all --network none --entrypoint nvidia-smi",
            f'"$({image_id(release.images)})"',
            "--list-gpus",
        )
        yield StringCommand("systemctl start --no-block", QuoteString(unit))
    log: list[str] = []
    yield FunctionCommand(_follow, (unit, release, peer, log), {})
    ours = _engines(release).units[release.id]
    if ours.active != "active":
        # Left alone it would go on failing until its start limit, unseen.
        yield StringCommand("systemctl stop", QuoteString(unit))
        known = hint(log)
        yield failing(
            "\n".join(
                [
                    *log[-JOURNAL_LINES:],
                    f"{unit} did not start; its last lines are above. "
                    f"All of them: journalctl -u {unit}",
                    *([f"It said last: {ours.status}."] if ours.status else []),
                    *([f"Hint: {known}."] if known else []),
                ]
            )
        )


def _follow(unit: str, release: Release, peer: Host | None, log: list[str]) -> None:
    """Show each new phase of a start until it has ended; collect the log's lines in `log`.

    A start that waits for an engine of the other Spark which will not come ends as well.
    """
    begun = looked = time.monotonic()
    shown = cursor = None
    peer_began = False
    while True:
        part = host.get_fact(Journal, unit=unit, cursor=cursor)
        cursor = part.cursor or cursor
        log += part.lines
        now = phase(part.lines)
        if now and now != shown:
            host.log(f"engine: {now} ({time.monotonic() - begun:.0f} s)")
            shown = now
        if not part.starting:
            return
        if peer and time.monotonic() - looked > PEER_SECONDS:
            looked = time.monotonic()
            theirs = peer.get_fact(Engines, root=release.root, release=release.id)
            ended = theirs.units[release.id].ended
            if ended and (peer_began or looked - begun > PEER_PATIENCE):
                log.append(f"the engine of {peer.data.spark} has ended")
                return
            peer_began = peer_began or not ended
        time.sleep(POLL_SECONDS)
