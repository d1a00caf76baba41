"""Make one release the one that serves."""

import time
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from deploys.facts.engine import Engines, Journal
from deploys.operations.messages import failing
from deploys.plan.engine import EngineState, problem
from deploys.plan.phases import hint, phase
from deploys.plan.release import Release

# A start takes minutes: this often is soon enough to see, and seldom enough to cost nothing.
POLL_SECONDS = 2
JOURNAL_LINES = 30


@operation()
def serving(release: Release) -> Generator[PyinfraCommand, None, None]:
    """Serve `release`, and nothing else, now and after every boot.

    Other engines are stopped and disabled first: a Spark's memory holds one. A start in progress
    is joined. An engine that runs but does not answer fails the host and is left as it is: it may
    be at work on what others asked of it.

    Args:
        release: its files, weights and image are on the Spark.
    """
    unit = f"vllm@{release.id}.service"
    engines = _engines(release)
    ours = engines.units[release.id]
    changes = list(_switch(engines, release, unit))
    yield from changes
    if ours.active != "active":
        yield from _start(engines, release, unit)
        engines = _engines(release)
    if trouble := problem(engines, release.recipe.served_names):
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
    if engines.current:
        yield StringCommand("rm", QuoteString(f"{root}/current"))


def _engines(release: Release) -> EngineState:
    return host.get_fact(
        Engines,
        root=release.root,
        release=release.id,
        url=release.url,
        model=release.recipe.served_names[0],
    )


def _switch(engines: EngineState, release: Release, unit: str) -> Generator[StringCommand]:
    """Leave `release` as the only engine that is enabled, current, and not stopped."""
    if any(engine.needs_reload for engine in engines.units.values()):
        yield StringCommand("systemctl daemon-reload")
    yield from _stop(engines, keep=release.id)
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


def _start(engines: EngineState, release: Release, unit: str) -> Generator[PyinfraCommand]:
    """Start the unit, or join its start, and show how it goes on; fail with what it said."""
    if not engines.units[release.id].starting:
        # Fails in seconds where the engine would take minutes to find no GPU.
        yield StringCommand(
            "docker run --rm --pull never --gpus all --network none --entrypoint nvidia-smi",
            QuoteString(release.image),
            "--list-gpus",
        )
        yield StringCommand("systemctl reset-failed", QuoteString(unit), "2>/dev/null; true")
        yield StringCommand("systemctl start --no-block", QuoteString(unit))
    log: list[str] = []
    yield FunctionCommand(_follow, (unit, log), {})
    if _engines(release).units[release.id].active != "active":
        # Left alone it would go on failing until its start limit, unseen.
        yield StringCommand("systemctl stop", QuoteString(unit))
        remedy = hint(log)
        yield failing(
            "\n".join(
                [
                    *log[-JOURNAL_LINES:],
                    f"{unit} did not start; its last lines are above. "
                    f"All of them: journalctl -u {unit}",
                    *([f"Hint: {remedy}."] if remedy else []),
                ]
            )
        )


def _follow(unit: str, log: list[str]) -> None:
    """Show each new phase of a start until it has ended; collect the log's lines in `log`."""
    begun = time.monotonic()
    shown = cursor = None
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
        time.sleep(POLL_SECONDS)
