"""The course of a rollout: the order in which replicas switch, and the next task of each Spark.

It knows no host and no clock. Every Spark asks for its task and reports the result; the next tasks
are given out when all results of the present ones are in.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence

from sparkwright.common.command_line import next_line
from sparkwright.rollout.record import FAILURES, ReplicaRecord, Result, Task, TaskReport, merged
from sparkwright.rollout.serving import ServingState


def waves(replicas: Sequence[str]) -> list[tuple[str, ...]]:
    """Divide replicas into waves: one as a canary, then 1, 2, 4, … as trust grows."""
    divided: list[tuple[str, ...]] = []
    first = 0
    while first < len(replicas):
        size = max(1, 2 ** (len(divided) - 1))
        divided.append(tuple(replicas[first : first + size]))
        first += size
    return divided


Tasks = Mapping[str, Task]
Reports = Mapping[str, TaskReport]
_Course = Generator[Tasks, Reports, None]


class Rollout:
    """One rollout.

    Args:
        replicas: the Sparks of each, the head first; in the order of the inventory.
        forced: as in `RunOptions`.

    Attributes:
        records: what has happened to each replica so far.
        planned: all replicas have been looked at, and their waves are known.
        waves: the replicas of each wave.
        stopped: why it ended early; "" unless it did.
        moves: how often new tasks were given out.
    """

    def __init__(self, replicas: Mapping[str, Sequence[str]], forced: Collection[str] = ()) -> None:
        self.records = {name: ReplicaRecord(name, tuple(each)) for name, each in replicas.items()}
        self.planned = False
        self.waves: list[tuple[str, ...]] = []
        self.stopped = ""
        self.moves = 0
        self._forced = forced
        self._replica = {spark: name for name, each in replicas.items() for spark in each}
        self._lost: dict[str, str] = {}
        self._reports: dict[str, TaskReport] = {}
        self._states: dict[str, ServingState] = {}
        self._in_service: dict[str, bool] = {}
        self._course = self._run()
        self._tasks: Tasks | None = next(self._course)

    def of(self, spark: str) -> ReplicaRecord:
        """Return the record of a Spark's replica."""
        return self.records[self._replica[spark]]

    def declare(self, spark: str, release: str, names: Collection[str]) -> None:
        """Record what a Spark's replica should serve; to be called before its first report."""
        record = self.of(spark)
        record.release, record.names = release, frozenset(names)

    def task(self, spark: str) -> Task:
        """Return what a Spark is to do now; the same until it reports."""
        if self._tasks is None:
            return Task.END
        open_task = self._tasks.get(self._replica[spark])
        return Task.WAIT if open_task is None or spark in self._reports else open_task

    def report(self, spark: str, report: TaskReport) -> None:
        """Record the result of a Spark's task."""
        self._reports[spark] = report
        self._advance()

    def lost(self, spark: str, why: str) -> None:
        """Expect no more reports from a Spark."""
        self._lost.setdefault(spark, why)
        self._advance()

    def verdict(self, spark: str) -> str:
        """Return why a Spark's part has failed, and how to go on; "" when it has not."""
        record = self.of(spark)
        if record.result not in FAILURES:
            return ""
        log = f"Full log: journalctl -u vllm@{record.release}"
        back = f"`{next_line('rollback', f'--limit {record.replica}')}`"
        words = {
            Result.FAILED: f"{record.previous} serves, and {record.release} is off. {log}",
            Result.DOWN: f"It serves nothing. {log}"
            + (f"\nTo have {record.previous} serve again: {back}" if record.previous else ""),
            Result.STUCK: f"It still has {record.release}. To go back: {back}",
        }
        lines = [f"replica {record.replica}: {record.reason}", words.get(record.result, "")]
        for result in (Result.BACK, Result.WAITING):
            if names := [each.replica for each in self.records.values() if each.result is result]:
                lines.append(f"{result.capitalize()}: {', '.join(names)}.")
        lines.append("Run again to go on: a replica that serves what it should is not touched.")
        return "\n".join(line for line in lines if line)

    def _advance(self) -> None:
        while self._tasks is not None:
            for spark, why in self._lost.items():
                self._reports.setdefault(spark, TaskReport(problem=why))
            sparks = {name: self.records[name].sparks for name in self._tasks}
            if any(spark not in self._reports for each in sparks.values() for spark in each):
                return
            reports = {
                name: merged([self._reports[spark] for spark in each])
                for name, each in sparks.items()
            }
            self._reports = {}
            try:
                self._tasks = self._course.send(reports)
            except StopIteration:
                self._tasks = None
            self.moves += 1

    def _run(self) -> _Course:
        """Yield the tasks of replicas, and receive their reports, until the end."""
        yield from self._begin()
        if self.stopped:
            return
        switched: list[str] = []
        for wave in self.waves:
            switched = []
            for name in wave:
                if not (yield from self._turn(name, switched)):
                    break
            if switched and not self.stopped:
                yield from self._soak(switched)
            if self.stopped:
                break
        else:
            switched = []
            yield from self._look(None)
        if self.stopped:
            yield from self._take_back(switched)

    def _begin(self) -> _Course:
        """Plan the waves by what serves, and refuse a switch during which a model would be lost."""
        reports = yield dict.fromkeys(self.records, Task.LOOK)
        self._states = {name: report.serving for name, report in reports.items()}
        todo = []
        after = dict(self._states)
        for name, record in self.records.items():
            record.previous = self._states[name].release
            self._in_service[name] = record.previous is not None
            if reports[name].problem:
                self._stop(name, Result.LOST, reports[name].problem)
            elif record.previous == record.release:
                record.result = Result.ALREADY
            else:
                todo.append(name)
        self.waves = waves(todo)
        for number, wave in enumerate(self.waves, 1):
            for name in wave:
                record = self.records[name]
                record.wave = number
                without = self._without(name, after)
                if without and not reports[name].fits_beside and name not in self._forced:
                    self._stop(name, Result.REFUSED, without)
                after[name] = ServingState(record.release, names=record.names)
        self.planned = True

    def _turn(self, name: str, switched: list[str]) -> Generator[Tasks, Reports, bool]:
        """Switch one replica; return whether the rollout may go on."""
        yield from self._look(name)
        record = self.records[name]
        if self.stopped or record.result is Result.ALREADY:
            return not self.stopped
        record.result = Result.SWITCHING
        report = (yield {name: Task.SWITCH})[name]
        record.seconds, record.gap, record.beside = report.seconds, report.gap, report.beside
        if report.problem:
            self._stop(name, Result.LOST if self._is_lost(name) else Result.DOWN, report.problem)
            back = (yield {name: Task.BACK})[name] if report.undo else report
            if record.result is Result.DOWN and (back.restored or not back.problem):
                record.result = Result.FAILED
            return False
        record.result = Result.SWITCHED
        self._in_service[name] = True
        switched.append(name)
        return True

    def _soak(self, switched: Sequence[str]) -> _Course:
        reports = yield dict.fromkeys(switched, Task.SOAK)
        for name, report in reports.items():
            self.records[name].speed = report.speed
            if report.problem:
                self._stop(name, Result.STUCK, report.problem)

    def _look(self, turn: str | None) -> _Course:
        """Check that all replicas serve what this rollout left them; stop where one does not.

        Args:
            turn: the replica that is to switch next; None at the end.
        """
        reports = yield dict.fromkeys(self.records, Task.LOOK)
        self._states = {name: report.serving for name, report in reports.items()}
        for name, record in self.records.items():
            if reports[name].problem:
                self._stop(name, Result.LOST, reports[name].problem)
            elif self._states[name].release is None and self._in_service[name]:
                switched = record.result is Result.SWITCHED
                result = Result.STUCK if switched else Result.REFUSED
                self._stop(name, result, "it served when the rollout began, and does no more")
        if turn is None or self.stopped:
            return
        record, now = self.records[turn], self._states[turn]
        if now.release == record.release:
            record.result = Result.ALREADY
        elif now.release not in (record.previous, None):
            self._stop(
                turn,
                Result.REFUSED,
                f"found {now.release}, set by somebody else; expected {record.previous} as when "
                f"the rollout began, or {record.release}",
            )

    def _take_back(self, switched: Sequence[str]) -> _Course:
        """Have a wave serve what it served before, one replica after the other, the last first."""
        broken = [
            name
            for name, record in self.records.items()
            if record.result is Result.STUCK and name not in switched
        ]
        for name in [*broken, *reversed(switched)]:
            record = self.records[name]
            problem = (yield {name: Task.BACK})[name].problem
            if problem:
                record.result = Result.STUCK
                reason = record.reason or self.stopped
                record.reason = f"{reason}; the way back failed: {problem}"
            elif record.result is Result.STUCK:
                record.result = Result.FAILED
            else:
                record.result, record.reason = Result.BACK, self.stopped

    def _without(self, name: str, states: Mapping[str, ServingState]) -> str:
        """Return which models no replica would serve while one switches, as a sentence; "" if none.

        A name that the new release lacks does not count: the inventory gave it up.
        """
        own = states[name]
        others = [each for other, each in states.items() if other != name and each.release]
        if own.release is None:
            return ""
        wanted = own.names & self.records[name].names
        missing = wanted.difference(*(each.names for each in others))
        if others and not missing:
            return ""
        what = f"model {' or '.join(sorted(missing))}" if others else "a model"
        return (
            f"while it switches, no other replica of this run serves {what}, and its memory does "
            f"not hold both engines. To switch anyway: --data force={name}"
        )

    def _is_lost(self, name: str) -> bool:
        return any(spark in self._lost for spark in self.records[name].sparks)

    def _stop(self, name: str, result: Result, reason: str) -> None:
        record = self.records[name]
        record.result, record.reason = result, reason
        self.stopped = self.stopped or f"replica {name}: {reason}"
