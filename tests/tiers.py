"""The tests by tier, parts of them side by side: python -m tests.tiers test | rest

`test` is what a change is tried with: lint, unit and component tests, and one virtual Spark, both
with the stand-in engine and with real vLLM. `rest` is all else but the campaign. What a part prints
goes to test-results/NAME.log, the journals of Sparks on which a test failed beside it.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.clock import patience
from tests.lab.shard import RESULTS
from tests.lab.state import PROJECT

# Two more than there are processors: a lab computes for less than half of the time.
_SLOTS = (os.cpu_count() or 1) + 2
# Seconds between two looks at what runs, and between two lines about it.
_LOOK, _REPORT = 0.2, 30.0
# A tier fails that takes this many times its budget, on a machine on which others keep theirs. A
# part that takes this many times its own hangs, and is ended.
_EXCESS, _HANGS = 1.5, 4.0


@dataclass(frozen=True)
class Part:
    """What a process does beside others; a `lab` in a shard, when the caches are full."""

    tier: str
    name: str
    minutes: float
    command: str
    lab: bool = False

    @property
    def log(self) -> Path:
        return RESULTS / f"{self.name}.log"


def _tests(name: str, minutes: float, words: str, *, tier: str = "", lab: bool = False) -> Part:
    """Describe a part that runs tests; `words` are pytest's."""
    pytest = f"python -m pytest -v --durations=10 --junitxml={RESULTS}/{name}.xml {words}"
    return Part(tier or name, name, minutes, pytest, lab)


def _system(name: str, minutes: float, *modules: str) -> Part:
    files = " ".join(f"tests/system/test_{module}.py" for module in modules)
    return _tests(f"system-{name}", minutes, files, tier="system", lab=True)


SETUP = Part("setup", "setup", 15, "python -m tests.lab build")
LINT = (
    "ruff check . && ruff format --check . && mypy && PYTHONPATH=files lint-imports --no-logo "
    "&& python -m tests.budget"
)
# The longest first: what is short fills the gaps.
RUNS = {
    "test": [
        SETUP,
        Part("lint", "lint", 1, LINT),
        _tests("component", 8, "tests/component -n 3 --dist loadfile"),
        _tests("acceptance-one", 8, "tests/acceptance/test_one.py", tier="acceptance", lab=True),
        _system("serve", 6, "serve"),
        _tests("unit", 4, "tests/unit"),
    ],
    "rest": [
        SETUP,
        # One first deploy of a pair for all of them.
        _system("recovery", 16, "recovery", "pair_states", "drift", "build", "mods", "benchmark"),
        _system("groups", 18, "groups"),
        _system("fleet", 10, "fleet"),
        _system("changes", 11, "standby", "switch", "update"),
        _system("pair", 9, "pair"),
        _system("turns", 8, "turns"),
        _tests("acceptance-pair", 8, "tests/acceptance/test_pair.py", tier="acceptance", lab=True),
        _tests("contract", 9, "tests/contract"),
        _system("two-engines", 8, "two_engines", "media"),
        _system("person", 7, "person"),
        _tests(
            "acceptance-texts", 5, "tests/acceptance/test_texts.py", tier="acceptance", lab=True
        ),
        _system("factory", 6, "factory", "download", "access", "firewall"),
        _tests("recipes", 4, "tests/recipes", tier="contract"),
        _system("network", 5, "network_manager"),
        _system("lab", 5, "lab", "lab_fabric", "foreign"),
        _system("images", 5, "image_store"),
        _system("in-use", 4, "machine_in_use"),
        _system("behind", 5, "behind"),
        _tests("security", 5, "tests/security -n 2 --dist loadfile"),
        _system("survives", 4, "survives"),
        _system("bundle", 5, "bundle"),
    ],
}


@dataclass
class Running:
    part: Part
    process: "subprocess.Popen[bytes]"
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.began

    def poll(self) -> None:
        if self.process.poll() is not None:
            self.ended = time.monotonic()
        elif self.seconds > patience(_HANGS * self.part.minutes * 60):
            with self.part.log.open("a") as log:
                log.write(f"\nended after {clock(self.seconds)}: it hangs\n")
            self.end()

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(patience(60))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(part: Part) -> Running:
    """Start a part, in a session of its own: Ctrl-C reaches it by way of this process."""
    shell = ["sh", "-c", part.command]
    # Nothing that it starts outlives it. Without root its tests say themselves what they lack.
    if os.geteuid() == 0 and part.lab:
        shell = [sys.executable, "-m", "tests.lab.shard", part.name, "--", *shell]
    elif os.geteuid() == 0:
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        shell = ["setpriv", "--pdeathsig", "KILL", *alone, *shell]
    own = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        # What one process compiles, all load: tests start some thousand.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(RESULTS / "bytecode"),
    }
    with part.log.open("w") as log:
        process = subprocess.Popen(
            shell,
            cwd=PROJECT,
            env=os.environ | own,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Running(part, process)


def run(parts: Sequence[Part]) -> list[Running]:
    """Run parts, as many at once as there are slots, and say how they get on; return all."""
    waiting, begun = list(parts), list[Running]()
    reported = time.monotonic()
    try:
        while waiting or any(each.ended is None for each in begun):
            for each in begun:
                if each.ended is None:
                    each.poll()
                    if each.ended is not None:
                        status = "failed" if each.process.returncode else "passed"
                        print(f"{each.part.name}: {status} in {clock(each.seconds)}", flush=True)
            running = [each for each in begun if each.ended is None]
            built = not any(part is SETUP for part in [*waiting, *(each.part for each in running)])
            ready = [part for part in waiting if built or not part.lab]
            if ready and len(running) < _SLOTS:
                waiting.remove(ready[0])
                begun.append(start(ready[0]))
                continue
            if time.monotonic() - reported > _REPORT:
                reported = time.monotonic()
                for each in running:
                    print(f"  … {each.part.name}, {clock(each.seconds)}: {_last(each.part.log)}")
                sys.stdout.flush()
            time.sleep(_LOOK)
    finally:
        for each in begun:
            if each.ended is None:
                each.end()
    return begun


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def counts(part: Part) -> tuple[int, int, int]:
    report = RESULTS / f"{part.name}.xml"
    if not report.exists():
        return 0, 0, 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))

    def total(*kinds: str) -> int:
        return sum(int(suite.get(kind, 0)) for suite in suites for kind in kinds)

    failed, skipped = total("failures", "errors"), total("skipped")
    return total("tests") - failed - skipped, failed, skipped


def excesses(ended: Sequence[Running]) -> list[str]:
    """Return a line for each tier that took much longer than its budget.

    Compared with the median, as a slow machine is slow in all tiers; but for what is built once.
    """
    found = []
    for tier in dict.fromkeys(each.part.tier for each in ended):
        took = sum(each.seconds for each in ended if each.part.tier == tier)
        found.append((tier, took, 60 * sum(p.part.minutes for p in ended if p.part.tier == tier)))
    paces = [took / budget for tier, took, budget in found if tier != SETUP.tier]
    usual = max(patience(1), statistics.median(paces or [1]))
    return [
        f"{tier} took {clock(took)}; its budget is {clock(budget)}"
        for tier, took, budget in found
        if took > _EXCESS * usual * budget
    ]


def summary(ended: Sequence[Running], seconds: float) -> int:
    failed = [each for each in ended if each.process.returncode]
    for each in failed:
        print(f"\n=== {each.part.name} failed; the end of {each.part.log.relative_to(PROJECT)}:\n")
        print("\n".join(each.part.log.read_text(errors="replace").splitlines()[-80:]))
    print(f"\n{'part':<18}{'minutes':>8}{'budget':>8}{'passed':>8}{'failed':>8}{'skipped':>8}")
    rows = [(each, counts(each.part)) for each in ended]
    for each, found in rows:
        part = each.part
        print(f"{part.name:<18}{clock(each.seconds):>8}{clock(60 * part.minutes):>8}", end="")
        print("".join(f"{number:>8}" for number in found) if any(found) else "")
    late = excesses(ended)
    for line in late:
        print(f"too slow: {line}")
    passed, bad, skipped = (sum(found[index] for _, found in rows) for index in range(3))
    print(f"\n{clock(seconds)} minutes in all\n{passed} passed, {bad} failed, {skipped} skipped")
    return 1 if failed or late else 0


def _last(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][-70:] if lines else ""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.tiers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", choices=RUNS)
    asked = parser.parse_args(words).run
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    RESULTS.mkdir(exist_ok=True)
    parts = RUNS[asked] if os.geteuid() == 0 else [p for p in RUNS[asked] if p is not SETUP]
    for part in parts:
        (RESULTS / f"{part.name}.xml").unlink(missing_ok=True)
    began = time.monotonic()
    print(f"{len(parts)} parts, {_SLOTS} at once; their logs: {RESULTS.name}/", flush=True)
    try:
        ended = run(parts)
    except KeyboardInterrupt:
        print("\ninterrupted; what ran was ended", file=sys.stderr)
        return 130
    status = summary(ended, time.monotonic() - began)
    if status == 0:
        # Of what is committed: a release asks for it (tests/release.py).
        (RESULTS / f"{asked}.passed").write_text(commit())
    return status


def commit() -> str:
    """Return the commit that this tree is; "" where something is changed, or git is missing."""
    git = ("git", "-C", PROJECT)
    try:
        changes = subprocess.check_output([*git, "status", "--porcelain"], text=True)
        return "" if changes else subprocess.check_output([*git, "rev-parse", "HEAD"], text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
