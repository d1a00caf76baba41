"""The runs of pyinfra that a rollout is made of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.common.command_line import DEPLOYS, handed_on
from sparkwright.common.errors import PlanError
from sparkwright.common.last_resort import INTERRUPTED
from sparkwright.upkeep.rollout.plan import ReplicaRecord, Serving, serving_of

# The answers of the Sparks of each replica, the head first.
Answers = dict[str, list[dict[str, Any]]]
# Seconds until a Spark that has given no answer is asked again.
RETRY = 5
_UNKNOWN = "its run ended without a result: see above"


@dataclass(frozen=True)
class Runs:
    """Each run is a process of its own, with a lease of its own.

    Attributes:
        chosen: `--limit` and `--exclude`, as words of pyinfra's command line.
        settings: `--data`, likewise.
    """

    chosen: Sequence[str]
    settings: Sequence[str]

    def prepare(self, mode: str) -> tuple[int, Answers]:
        """Bring all that is new; return the exit status, and what each replica should serve."""
        return self._answers("sparkwright.deploy.prepare", mode, *self.chosen)

    def look(self) -> Mapping[str, Serving]:
        """Return what each replica serves; a Spark that gives no answer is asked again."""
        for pause in (RETRY, RETRY, 0):
            words = (DEPLOYS["status"], "--data", "json=-", *self.chosen)
            done = self._run(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                rows = json.loads(done.stdout)["sparks"]
            except ValueError:
                raise PlanError(f"what serves cannot be read:\n{done.stderr.strip()}") from None
            if all(row["answers"] for row in rows):
                break
            time.sleep(pause)
        by_replica = _grouped(row for row in rows if row["replica"])
        return {name: serving_of(own) for name, own in by_replica.items()}

    def switch(
        self, records: Sequence[ReplicaRecord], minimum_speed: float | None = None
    ) -> Mapping[str, str]:
        """Have replicas serve their releases, and prove it by a token; return why some failed."""
        least = [] if minimum_speed is None else [f"minimum_speed={minimum_speed}"]
        limits = [f"--limit={record.replica}" for record in records]
        deploy = "sparkwright.upkeep.rollout.deploy.switch"
        _, found = self._answers(deploy, *least, "-y", *limits)
        problems = {}
        for record in records:
            own = found.get(record.replica, [])
            reasons = [each["reason"] for each in own if each["reason"]]
            if reasons or len(own) < len(record.sparks):
                problems[record.replica] = "; ".join(dict.fromkeys(reasons)) or _UNKNOWN
            for figure in ("seconds", "gap", "beside", "speed"):
                if own and own[0][figure]:
                    setattr(record, figure, own[0][figure])
        return problems

    def go_back(self, record: ReplicaRecord) -> str:
        """Have a replica serve its previous release; return why that failed, or ""."""
        back = ["sparkwright.upkeep.rollback.deploy.to", record.previous or ""]
        words = back if record.previous else [DEPLOYS["stop"]]
        done = self._run(*words, "-y", f"--limit={record.replica}")
        return _UNKNOWN if done.returncode else ""

    def _answers(self, deploy: str, *words: str) -> tuple[int, Answers]:
        """Run a deploy that writes answers to a file; return its exit status, and these."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "answers"
            done = self._run(deploy, str(file), *words)
            lines = file.read_text("utf-8").splitlines() if file.exists() else []
        return done.returncode, _grouped(map(json.loads, lines))

    def _run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run pyinfra, which answers Ctrl-C itself."""
        program = [str(Path(sys.executable).with_name("pyinfra")), "inventory.py"]
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            line, known = [*program, *words, *self.settings], os.environ | handed_on()
            done = subprocess.run(line, text=True, check=False, env=known, **options)
        finally:
            signal.signal(signal.SIGINT, before)
        if done.returncode == INTERRUPTED:
            raise KeyboardInterrupt
        return done


def _grouped(rows: Iterable[dict[str, Any]]) -> Answers:
    """Return rows by their replica, the head's first."""
    found: Answers = {}
    for row in sorted(rows, key=lambda row: row["rank"]):
        found.setdefault(row["replica"], []).append(row)
    return found
