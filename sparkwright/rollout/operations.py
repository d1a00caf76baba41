"""Have replicas switch to their releases wave by wave, so that all but one serve at any time."""

import json
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyinfra import host
from pyinfra.api import FactBase, Host, State, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.facts import get_fact

from sparkwright.causes.log_causes import hint
from sparkwright.common.local_file import file_in, write_file
from sparkwright.common.operations import failing, notice, planning, spark_name
from sparkwright.common.terminal import plain
from sparkwright.engine import switch
from sparkwright.engine.engine import problem
from sparkwright.engine.facts import Engines, FreeMemory
from sparkwright.engine.operations.serve import JOURNAL_LINES, attempt, go_back
from sparkwright.release.release import Release
from sparkwright.rollout.facts import ServingRelease, Speed
from sparkwright.rollout.record import Task, TaskReport
from sparkwright.rollout.report import plan_lines, report, table
from sparkwright.rollout.waves import Rollout
from sparkwright.run.lease import lost_lease
from sparkwright.run.options import RunOptions
from sparkwright.run.target import target_of

# In the project that pyinfra runs in.
REPORTS = Path("rollouts")
# Seconds between two looks whether it is this Spark's turn, and at what serves while a wave soaks.
POLL, SOAK_POLL = 1, 10
LOST = (
    "the Spark stopped responding. A switch continues there, and reverts if it fails; "
    "deploys/status.py shows the result"
)


@dataclass
class _RolloutBook:
    """The one rollout of a run, of which all its hosts are a part.

    Attributes:
        started: as ISO 8601 has it.
        told: its table was shown.
    """

    rollout: Rollout
    asked: RunOptions
    started: str
    told: bool = False

    def keep(self) -> None:
        """Write the report as it is now; show the table when all is over."""
        over = all(self.rollout.task(each) is Task.END for each in self._sparks())
        ended = _now() if over else None
        content = report(self.rollout, self.asked, self.started, ended)
        file = file_in(REPORTS, f"{self.started.replace(':', '').replace('-', '')}.json")
        write_file(file, json.dumps(content, indent=2) + "\n")
        if over and not self.told:
            self.told = True
            for line in [*table(self.rollout), f"The report: {file}"]:
                host.log(plain(line))

    def _sparks(self) -> list[str]:
        return [spark for each in self.rollout.records.values() for spark in each.sparks]


# One for the planning of a run, and one for its execution, when other things may serve.
_books: dict[tuple[State, bool], _RolloutBook] = {}


@operation()
def waves(
    release: Release, settings: switch.SwitchSettings, asked: RunOptions, peer: Host | None
) -> Generator[PyinfraCommand]:
    """Switch this Spark's replica when its turn has come; wait while it is another's.

    All hosts are in this operation until the rollout has ended: none fails before its wave was
    taken back.

    Args:
        release: what its replica should serve: all of it is on the Spark.
        settings: of the switch.
        asked: of the rollout.
        peer: the other Spark of a pair.
    """
    book = _book(asked)
    rollout, spark = book.rollout, spark_name(host)
    rollout.declare(spark, release.id, release.recipe.served_names)
    first = _first_look(release, settings)
    if planning():
        rollout.report(spark, first)
        lines = plan_lines(rollout) if rollout.planned else []
        if rollout.planned and rollout.stopped:
            yield failing("\n".join(lines))
            return
        for line in lines:
            notice(line)
        if first.standing.release == release.id:
            host.noop(f"it serves {release.id}")
        else:
            yield from attempt(release, settings, peer, switch.Outcome())
        return
    outcome, life = switch.Outcome(), ""
    try:
        while (task := rollout.task(spark)) is not Task.END:
            if task is Task.WAIT:
                time.sleep(POLL)
                continue
            if task is Task.LOOK:
                done = first if not rollout.planned else _look(release.root)
            elif task is Task.SWITCH:
                outcome = switch.Outcome()
                record = rollout.of(spark)
                where = f"wave {record.wave} of {len(rollout.waves)}: replica {record.replica}"
                host.log(f"{where} switches to {release.id}")
                yield from attempt(release, settings, peer, outcome)
                life = _look(release.root).standing.life
                done = _switched(outcome)
            elif task is Task.SOAK:
                done = _soak(release, life, asked)
            else:
                host.log(f"replica {rollout.of(spark).replica} goes back")
                yield from go_back(release.root, settings, peer, outcome)
                done = TaskReport(problem="" if outcome.taken_back else _why(outcome))
            _take(book, spark, done)
    finally:
        # A failed command ends the operation here: the others must not wait for this Spark.
        if rollout.task(spark) is not Task.END:
            rollout.lost(spark, LOST)
            book.keep()
    if trouble := rollout.verdict(spark):
        known = hint(outcome.log)
        lines = [*outcome.log[-JOURNAL_LINES:], trouble, *([f"Hint: {known}."] if known else [])]
        yield failing("\n".join(lines))
    elif not outcome.attempted:
        host.noop(f"it serves {first.standing.release or 'nothing'}")


def _book(asked: RunOptions) -> _RolloutBook:
    state: State = host.state
    key = (state, planning())
    if key not in _books:
        replicas = {
            each.replica: each.ranks
            for each in map(target_of, state.inventory)
            if each.host in state.active_hosts and each.replica
        }
        _books[key] = _RolloutBook(Rollout(replicas, asked.force), asked, _now())
    return _books[key]


def _take(book: _RolloutBook, spark: str, done: TaskReport) -> None:
    """Hand in what came of a task; tell what the rollout is going to do as soon as it is known."""
    known = book.rollout.planned
    book.rollout.report(spark, done)
    if book.rollout.planned and not known:
        for line in plan_lines(book.rollout):
            host.log(plain(line))
    book.keep()


def _first_look(release: Release, settings: switch.SwitchSettings) -> TaskReport:
    """Return what serves here, and whether the new engine fits beside it."""
    found = _look(release.root)
    memory = _read(FreeMemory)
    return replace(found, fits_beside=bool(memory and switch.is_beside(settings, memory)))


def _look(root: str) -> TaskReport:
    """Return what serves here."""
    if lost := lost_lease(host.state):
        return TaskReport(problem=lost)
    standing = _read(ServingRelease, root=root)
    return (
        TaskReport(standing=standing)
        if standing
        else TaskReport(problem="what serves cannot be read")
    )


def _switched(outcome: switch.Outcome) -> TaskReport:
    return TaskReport(
        problem="" if outcome.served else _why(outcome),
        restored=bool(outcome.restored),
        undo=outcome.silent and outcome.attempted,
        beside=outcome.beside,
        seconds=outcome.seconds,
        gap=outcome.gap,
    )


def _why(outcome: switch.Outcome) -> str:
    return outcome.reason or "it was not done"


def _soak(release: Release, life: str, asked: RunOptions) -> TaskReport:
    """See that one life of the engine holds for as long as it should, and then delivers."""
    host.log(f"{release.id} is to hold for {asked.soak:.0f} s")
    began = time.monotonic()
    while True:
        found = _look(release.root)
        past = time.monotonic() - began
        if found.problem:
            return found
        if (found.standing.release, found.standing.life) != (release.id, life):
            return TaskReport(
                problem=f"vllm@{release.id} failed its soak: it ended within {past:.0f} s"
            )
        if past >= asked.soak:
            break
        time.sleep(min(SOAK_POLL, asked.soak - past))
    return _delivers(release, asked) if release.ranks.rank == 0 else TaskReport()


def _delivers(release: Release, asked: RunOptions) -> TaskReport:
    names = release.recipe.served_names
    engines = _read(Engines, root=release.root, release=release.id, url=release.url, model=names[0])
    if trouble := problem(engines, names) if engines else "its state cannot be read":
        return TaskReport(problem=f"vllm@{release.id} is active, but {trouble}")
    if asked.minimum_speed is None:
        return TaskReport()
    said = _read(Speed, root=release.root, url=release.url, model=names[0])
    try:
        speed = float(said)
    except ValueError:
        return TaskReport(problem=f"vllm@{release.id}: {said or 'no speed could be measured'}")
    if speed < asked.minimum_speed:
        found = f"found {speed} tokens a second in one stream"
        return TaskReport(
            problem=f"{found}; expected at least {asked.minimum_speed:.15g}", speed=speed
        )
    return TaskReport(speed=speed)


def _read(fact: type[FactBase[Any]], **arguments: str) -> Any:
    """Read a fact; where that fails, its default: the host is failed when the rollout is over."""
    return get_fact(host.state, host, fact, kwargs=arguments, apply_failed_hosts=False)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
