"""Switch replicas to their releases wave by wave, so that all but one serve at any time."""

import json
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gevent.event import Event
from pyinfra import host
from pyinfra.api import FactBase, Host, State, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.facts import get_fact

from sparkwright.causes.log_causes import hint
from sparkwright.common.command_line import next_line
from sparkwright.common.local_file import file_in, write_file
from sparkwright.common.operations import failing, is_surveying, notice, planning, spark_name
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
# Seconds between two checks of what serves while a wave soaks.
SOAK_POLL = 10
LOST = (
    "the Spark stopped responding. A switch continues there, and reverts if it fails; "
    f"{next_line('status')} shows the result"
)


@dataclass
class _RolloutBook:
    """The one rollout of a run, of which all its hosts are a part.

    Attributes:
        started: in ISO 8601.
        moved: set when the tasks of Sparks may be others than before.
        shown: its table was shown.
    """

    rollout: Rollout
    options: RunOptions
    started: str
    moved: Event
    shown: bool = False

    def keep(self) -> None:
        """Wake up the other Sparks, and write the report as it is; show the table at the end."""
        self.moved.set()
        self.moved = Event()
        sparks = [spark for each in self.rollout.records.values() for spark in each.sparks]
        over = all(self.rollout.task(spark) is Task.END for spark in sparks)
        content = report(self.rollout, self.options, self.started, _now() if over else None)
        file = file_in(REPORTS, f"{self.started.replace(':', '').replace('-', '')}.json")
        write_file(file, json.dumps(content, indent=2) + "\n")
        if over and not self.shown:
            self.shown = True
            for line in [*table(self.rollout), f"The report: {file}"]:
                host.log(plain(line))


# One for the planning of a run, and one for its execution, when other releases may serve.
_books: dict[tuple[State, bool], _RolloutBook] = {}


@operation()
def waves(
    release: Release, settings: switch.SwitchSettings, asked: RunOptions, peer: Host | None
) -> Generator[PyinfraCommand]:
    """Switch this Spark's replica when it is its turn; wait until then.

    All hosts are in this operation until the rollout has ended: none fails before its wave was
    taken back.

    Args:
        release: what its replica should serve; all of it is on the Spark.
        asked: the options of the run.
        peer: the other Spark of a pair.
    """
    book = _book(asked)
    rollout, spark = book.rollout, spark_name(host)
    rollout.declare(spark, release.id, [*release.recipe.models])
    first = _first_look(release, settings)
    if is_surveying():
        return
    if planning():
        rollout.report(spark, first)
        lines = plan_lines(rollout) if rollout.planned else []
        if rollout.planned and rollout.stopped:
            yield failing("\n".join(lines))
            return
        for line in lines:
            notice(line)
        if first.serving.release == release.id:
            host.noop(f"it serves {release.id}")
        else:
            yield from attempt(release, settings, peer, switch.Outcome())
        return
    outcome, invocation = switch.Outcome(), ""
    try:
        while (task := rollout.task(spark)) is not Task.END:
            if task is Task.WAIT:
                book.moved.wait()
                continue
            if task is Task.LOOK:
                result = first if not rollout.planned else _look(release.place)
            elif task is Task.SWITCH:
                outcome = switch.Outcome()
                record = rollout.of(spark)
                where = f"wave {record.wave} of {len(rollout.waves)}: replica {record.replica}"
                host.log(f"{where} switches to {release.id}")
                yield from attempt(release, settings, peer, outcome)
                invocation = _look(release.place).serving.invocation
                result = _switched(outcome)
            elif task is Task.SOAK:
                result = _soak(release, invocation, asked)
            else:
                host.log(f"replica {rollout.of(spark).replica} goes back")
                yield from go_back(release.place, settings, peer, outcome)
                result = TaskReport(problem="" if outcome.taken_back else _why(outcome))
            _hand_in(book, spark, result)
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
        host.noop(f"it serves {first.serving.release or 'nothing'}")


def _book(options: RunOptions) -> _RolloutBook:
    state: State = host.state
    key = (state, planning())
    if key not in _books:
        replicas = {
            each.replica: each.ranks
            for each in (target_of(spark).chosen_seats[0] for spark in state.inventory)
            if each.host in state.active_hosts and each.replica
        }
        _books[key] = _RolloutBook(Rollout(replicas, options.force), options, _now(), Event())
    return _books[key]


def _hand_in(book: _RolloutBook, spark: str, result: TaskReport) -> None:
    """Hand in the result of a task; show the plan of the rollout as soon as there is one."""
    was_planned, moves = book.rollout.planned, book.rollout.moves
    book.rollout.report(spark, result)
    if book.rollout.planned and not was_planned:
        for line in plan_lines(book.rollout):
            host.log(plain(line))
    if book.rollout.moves != moves:
        book.keep()


def _first_look(release: Release, settings: switch.SwitchSettings) -> TaskReport:
    """Return what serves here, and whether the new engine fits beside it."""
    now = _look(release.place)
    memory = _read(FreeMemory)
    return replace(now, fits_beside=bool(memory and switch.is_beside(settings, memory)))


def _look(root: str) -> TaskReport:
    """Return what serves here."""
    if lost := lost_lease(host.state):
        return TaskReport(problem=lost)
    if serving := _read(ServingRelease, root=root):
        return TaskReport(serving=serving)
    return TaskReport(problem="what serves cannot be read")


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


def _soak(release: Release, invocation: str, options: RunOptions) -> TaskReport:
    """Check that one invocation of the engine lasts for the soak time, and then answers."""
    host.log(f"{release.id} is to hold for {options.soak:.0f} s")
    began = time.monotonic()
    while True:
        seen = _look(release.place)
        past = time.monotonic() - began
        if seen.problem:
            return seen
        if (seen.serving.release, seen.serving.invocation) != (release.id, invocation):
            return TaskReport(
                problem=f"vllm@{release.id} failed its soak: it ended within {past:.0f} s"
            )
        if past >= options.soak:
            break
        time.sleep(min(SOAK_POLL, options.soak - past))
    return _check_answers(release, options) if release.ranks.rank == 0 else TaskReport()


def _check_answers(release: Release, options: RunOptions) -> TaskReport:
    """Check that the engine answers, and as fast as the options ask."""
    names, answers = [*release.recipe.models], release.recipe.answers
    engines = _read(
        Engines,
        root=release.place,
        release=release.id,
        model=names[0],
        answers=answers,
    )
    if trouble := problem(engines, names, answers) if engines else "its state cannot be read":
        return TaskReport(problem=f"vllm@{release.id} is active, but {trouble}")
    # What makes no tokens has no speed in tokens.
    if options.minimum_speed is None or answers != "chat":
        return TaskReport()
    answer = _read(Speed, root=release.place, release=release.id, model=names[0])
    try:
        speed = float(answer)
    except ValueError:
        return TaskReport(problem=f"vllm@{release.id}: {answer or 'no speed could be measured'}")
    reason = ""
    if speed < options.minimum_speed:
        least = f"{options.minimum_speed:.15g}"
        reason = f"found {speed} tokens a second in one stream; expected at least {least}"
    return TaskReport(problem=reason, speed=speed)


def _read(fact: type[FactBase[Any]], **arguments: str) -> Any:
    """Read a fact; if that fails, return its default: the host fails at the rollout's end."""
    return get_fact(host.state, host, fact, kwargs=arguments, apply_failed_hosts=False)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
