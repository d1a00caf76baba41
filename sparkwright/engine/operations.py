"""Make one release the one that serves."""

import time
from collections.abc import Generator, Sequence

from gevent import GreenletExit
from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import PyinfraError

from sparkwright.artifacts.compiled.deploy import collect
from sparkwright.artifacts.jobs.deploy import LOST, put_manifest, start
from sparkwright.common.operations import differs, failing, run_now, spark_name
from sparkwright.common.placed import Place
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.fabric_plan import neighbors
from sparkwright.engine.state import (
    SHARE,
    EngineState,
    ask_release,
    engine_differences,
    phase,
    problem,
)
from sparkwright.engine.switch import (
    JOB,
    Outcome,
    SwitchSettings,
    SwitchState,
    crowded,
    failure,
    orders,
    progress_line,
    unmasked,
)
from sparkwright.plan.causes.log_causes import hint
from sparkwright.plan.memory.plan import load_of
from sparkwright.plan.release.release import Release
from sparkwright.run.ending import conclude
from sparkwright.run.state import read, read_now
from sparkwright.run.target import Target

# A start takes minutes: this often is soon enough to see, and seldom enough to cost nothing.
POLL_SECONDS = 2
# Seconds by which a group's attempts begin apart, at the most: what is older is another one.
TOGETHER = 60
JOURNAL_LINES = 30

_DISABLE = "systemctl disable --quiet --now"

# What became of the last attempt on each Spark, for the others of its group.
_last: dict[tuple[str, str], Outcome] = {}


def switch_settings(own: Target, served: Release | None = None) -> SwitchSettings:
    """Return how a seat switches to a release; None stands for any that is on the Spark."""
    return SwitchSettings(
        trial=own.settings.trial_seconds,
        drain=own.settings.drain_seconds,
        door=own.is_head,
        hardware=own.hardware,
        load=load_of(served.recipe, own.lock, len(own.ranks)) if served else None,
        others=tuple(each.place for each in own.seats if each.seat != own.seat and not each.yields),
        on_demand=own.on_demand,
        shares=any(each.ranks and neighbors(each.ranks, own.spark)[1] for each in own.seats),
    )


@operation()
def serving(
    release: Release,
    settings: SwitchSettings,
    peers: Sequence[Host] = (),
    outcome: Outcome | None = None,
) -> Generator[PyinfraCommand]:
    """Serve `release`, which is on the Spark, and nothing else, now and after every boot.

    A unit on the Spark makes the switch, and goes on without a connection: a run starts or joins
    it. What served before serves again where the release does not. An engine that runs but does not
    answer fails the host and is left as it is: it may be at work on what others asked of it.

    Args:
        peers: the other Sparks of its group, on which this operation runs at the same time.
        outcome: is filled.
    """
    outcome = outcome or Outcome()
    engines = read(host, ask_release(release))
    unit = f"vllm@{release.id}.service"
    ours = engines.units.get(release.id)
    if ours is None:
        yield failing("systemd does not answer: the engine is one of its units. Boot normally")
        return
    for difference in engine_differences(engines, release.id, settings.door, settings.on_demand):
        differs(*difference)
    if ours.masked:
        yield StringCommand(unmasked(release.place, release.id, settings.door))
    # A Spark from which others copied, and do no more, offers nothing on the fabric.
    if engines.shares and not settings.shares:
        yield StringCommand(_DISABLE, SHARE)
    settled = ours.active == "active" and ours.enabled
    if settings.on_demand:
        settled = engines.current == engines.last == release.id and ours.active != "failed"
        # A worker waits for its head.
        settled = settled and (settings.door or (ours.enabled and not ours.ended))
    if settled and not engines.switches:
        yield from _settle(engines, release, settings)
    else:
        yield from _job(release.place, release.id, settings, engines.switches, peers, outcome)
        if not outcome.served:
            yield failing(_complaint(release.id, outcome))
            return
        if outcome.start:
            host.log(f"engine: its start took {outcome.start.line(release.recipe.expected)}")
        yield from collect(release)
        engines = read_now(host, ask_release(release))
    trouble, now = None, engines.units.get(release.id, ours)
    if release.ranks.rank == 0 and (now.active == "active" or not settings.on_demand):
        trouble = problem(engines, [*release.recipe.models], release.recipe.answers)
    outcome.served, outcome.reason = not trouble, trouble or ""
    if trouble:
        yield failing(
            f"{unit} is active, but {trouble}. "
            f"Look with `journalctl -u {unit}`; restart with `sudo systemctl restart {unit}`."
        )
    elif not outcome.attempted:
        does = "serves" if now.active == "active" else "is started by requests for"
        host.noop(f"{unit} {does} {', '.join(release.recipe.models)}")
    elif settings.on_demand and settings.door and now.active != "active":
        conclude(release.id, " is unproved until its first request, which starts it.")


def serve_again(own: Target, release: str, before: str | None = None) -> Generator[PyinfraCommand]:
    """Yield what has a release serve that served before, by what is on the Spark of it.

    Its memory is what its last switch has noted.

    Args:
        before: the release that has served until now, if people are to be told.
    """
    engines, outcome = read(host, EngineState.ask(root=own.place)), Outcome()
    asked = switch_settings(own)
    yield from _job(own.place, release, asked, engines.switches, own.peers, outcome)
    if not outcome.served:
        yield failing(_complaint(release, outcome))
    else:
        was = f" (before: {before})" if before else ""
        conclude(own.replica or own.spark, f" serves {release} again{was}.")


def _complaint(release: str, outcome: Outcome) -> str:
    """Return the report of a switch that failed, the engine's last lines first."""
    hints = [f"Hint: {known}."] if (known := hint(outcome.log)) else []
    return "\n".join([*outcome.log[-JOURNAL_LINES:], failure(release, outcome), *hints])


@operation()
def idle(place: Place) -> Generator[StringCommand]:
    """Serve nothing, now and after every boot; weights, image and releases stay."""
    engines = read(host, EngineState.ask(root=place))
    for difference in engine_differences(engines, None):
        differs(*difference)
    yield from end(engines)
    if engines.shares:
        yield StringCommand(_DISABLE, SHARE)
    if engines.current:
        yield StringCommand("rm", QuoteString(f"{place}/current"))


def _settle(
    engines: EngineState, release: Release, settings: SwitchSettings
) -> Generator[StringCommand]:
    """Leave a release that runs and boots as the only one, current, and behind the door.

    One that requests start does not boot, and its door may be closed: it is not its turn.
    """
    if any(engine.outdated for engine in engines.units.values()):
        yield StringCommand("systemctl daemon-reload")
    yield from _stop(engines, keep=release.id)
    if settings.on_demand and settings.door and engines.units[release.id].enabled:
        yield StringCommand("systemctl disable --quiet", QuoteString(f"vllm@{release.id}.service"))
    if engines.failed:
        # What they failed at is over; the journal keeps it.
        yield StringCommand("systemctl reset-failed", *map(QuoteString, engines.failed))
    if engines.current != release.id:
        link = QuoteString(f"{release.place}/current")
        yield StringCommand("ln -sfnT", QuoteString(f"releases/{release.id}"), link)
    closed = settings.on_demand and engines.preferred is None
    if settings.door and engines.preferred != release.id and not closed:
        program, name = f"{release.root}/bin/sparkwright-host", QuoteString(release.id)
        door = ("python3 -B", QuoteString(program), "door", QuoteString(release.place))
        yield StringCommand(*door, "offer", name, "&&", *door, "prefer", name)


def end(engines: EngineState) -> Generator[StringCommand]:
    """Yield what ends all engines of a seat, and the switches to others, for good."""
    for release in engines.switches:
        yield StringCommand("systemctl stop", QuoteString(f"switch@{release}.service"))
    yield from _stop(engines, keep=None)


def _stop(engines: EngineState, keep: str | None) -> Generator[StringCommand]:
    for engine in engines.units.values():
        if engine.release != keep and not engine.stopped:
            unit = QuoteString(f"vllm@{engine.release}.service")
            # A worker's has ended with its head's: that is no failure for anybody to look into.
            forgiven = ("&& { systemctl reset-failed", unit, "2>/dev/null || true; }")
            yield StringCommand(_DISABLE, unit, *forgiven)


def _job(
    root: str,
    release: str,
    settings: SwitchSettings,
    under_way: Sequence[str],
    peers: Sequence[Host],
    outcome: Outcome,
) -> Generator[PyinfraCommand]:
    """Yield what has a unit make a switch, or joins it; fill `outcome` when it has ended."""
    job = JOB.format(release)
    outcome.attempted = True
    _last[host.name, release] = outcome
    try:
        if release not in under_way:
            for other in under_way:
                # It takes back what it did; the new one waits for that.
                theirs = QuoteString(f"{JOB.format(other)}.service")
                yield StringCommand("systemctl stop --no-block", theirs)
            memory = read_now(host, settings.ask_memory(root, release))
            if why := crowded(settings, memory):
                outcome.reason = why
                return
            yield from put_manifest(root, job, job, orders(settings, memory))
            yield start(job)
        yield FunctionCommand(_follow, (root, release, peers, outcome), {})
    finally:
        # Also where a command failed: the group's other Sparks then need not wait for this one.
        outcome.ended = True
        outcome.reason = outcome.reason or ("" if outcome.served else "it began no switch")


def _follow(
    state: State, host: Host, root: str, release: str, peers: Sequence[Host], outcome: Outcome
) -> bool:
    """Show how a switch goes on until it has ended; fill `outcome`.

    Where another Spark of its group has failed, this one's is taken back as well.
    """
    shown: set[str] = set()
    since, cursor, told, job = "", None, "", JOB.format(release)
    while True:
        try:
            asked = SwitchState.ask(root=root, release=release, since=since, cursor=cursor)
            now = read_now(host, asked)
        except PyinfraError:
            host.log(LOST, logger.error)
            outcome.reason = LOST
            break
        except GreenletExit:
            # The connection is lost (sparkwright/run/failures.py): the group's others learn of it.
            outcome.reason = LOST
            raise
        cursor = now.cursor or cursor
        outcome.log += now.lines
        outcome.start = now.start or outcome.start
        # A switch that fails within a second has ended before its journal was read.
        unread = now.report is not None and not (since or now.lines)
        if now.report:
            since = f"@{now.report.began}"
            outcome.take(now.report)
            words = [("switch", progress_line(now.report)), ("engine", phase(now.lines) or "")]
            for what, line in words:
                if line and f"{what}{line}" not in shown:
                    shown.add(f"{what}{line}")
                    host.log(f"{what}: {plain(line)} ({time.monotonic() - outcome.began:.0f} s)")
        if now.ended and unread:
            continue
        if now.ended:
            outcome.served = outcome.served and bool(now.report)
            if not (outcome.served or outcome.reason):
                outcome.reason = f"the switch ended without a report: journalctl -u {job}"
            break
        if not told and (told := _failed_beside(peers, release, outcome)):
            host.log(plain(f"switch: it has failed on {told}"))
            run_now(host, StringCommand("systemctl stop --no-block", QuoteString(f"{job}.service")))
        time.sleep(POLL_SECONDS)
    if told and not outcome.served:
        outcome.reason = told
    return True


def _failed_beside(peers: Sequence[Host], release: str, outcome: Outcome) -> str:
    """Return which other Spark of a group has failed at the same switch, and why; "" if none."""
    for peer in peers:
        theirs = _last.get((peer.name, release))
        together = theirs and abs(theirs.began - outcome.began) < TOGETHER
        if theirs and together and theirs.ended and not theirs.served:
            return f"{spark_name(peer)}: {theirs.reason}"
    return ""
