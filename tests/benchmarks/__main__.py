"""make bench: what runs, copies and recoveries cost on virtual Sparks of its own, as ratios."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.benchmarks.copies import copy_table
from tests.benchmarks.recovery import recovery_table
from tests.driver.pairs import Pair
from tests.driver.product import DEPLOY, PROJECT, env
from tests.lab.lab import Lab
from tests.lab.shard import enter
from tests.lab.spark import Handle

ROUNDS = 10
MAX_COMMANDS = 30
MAX_RATIO = 10
# Seconds each way: 50 ms for the round trip.
DELAY = 0.025

_COUNTED = [sys.executable, "-m", "tests.benchmarks.counted"]


def deploy(report: Path) -> float:
    """Run the deploy; return its seconds. What it asked of the Spark is in `report`."""
    begun = time.monotonic()
    subprocess.run(
        [*_COUNTED, str(report), "inventory/lab.py", DEPLOY, "-y"],
        cwd=PROJECT,
        env=env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return time.monotonic() - begun


def login(spark: Handle) -> float:
    """Return the seconds of `ssh host true`."""
    begun = time.monotonic()
    subprocess.run(spark.ssh_command("true"), check=True)
    return time.monotonic() - begun


def no_op(spark: Handle, title: str) -> tuple[int, float]:
    """Measure runs that change nothing, in turn with logins; return commands and ratio."""
    with tempfile.NamedTemporaryFile() as file:
        report = Path(file.name)
        deploy(report)
        pairs = [(login(spark), deploy(report)) for _ in range(ROUNDS)]
        calls = json.loads(report.read_text())
    floor, run = (statistics.median(values) for values in zip(*pairs, strict=True))
    remote = sum(seconds for _, seconds in calls)
    print(f"\nA run that changes nothing, {title} (median of {ROUNDS})")
    print(f"  ssh host true            {floor:6.2f} s")
    print(f"  pyinfra                  {run:6.2f} s   {run / floor:.1f} x")
    print(f"  of it waiting for the Spark {remote:.2f} s in {len(calls)} commands:")
    seconds: Counter[str] = Counter()
    for operation, duration in calls:
        seconds[operation] += duration
    numbers = Counter(operation for operation, _ in calls)
    for operation, duration in seconds.most_common():
        print(f"    {duration:5.2f} s  {numbers[operation]:2}  {operation}")
    return len(calls), run / floor


def from_factory(spark: Handle) -> None:
    """Show where the time goes from the factory state to a real completion."""
    spark.reset()
    run = subprocess.Popen(
        [*_COUNTED, "/dev/null", "inventory/lab.py", DEPLOY, "-y"],
        cwd=PROJECT,
        env=env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = time.monotonic()
    marks = [(begun, "start, connection, plan")]
    assert run.stderr
    for line in run.stderr:
        if line.startswith("--> Starting operation: "):
            marks.append((time.monotonic(), line.removeprefix("--> Starting operation: ").strip()))
    end = time.monotonic()
    if run.wait():
        raise SystemExit("the deploy failed; try it by hand")
    print("\nFrom the factory state to a completion, caches of the lab warm")
    for (mark, name), (after, _) in zip(marks, [*marks[1:], (end, "")], strict=True):
        print(f"  {after - mark:6.1f} s  {name}")
    print(f"  {end - begun:6.1f} s  in all")


def one_spark() -> tuple[int, float]:
    """Measure one Spark; return commands and ratio of a run that changes nothing."""
    lab = Lab()
    lab.up(1)
    try:
        spark = lab.spark("spark1")
        from_factory(spark)
        budget = no_op(spark, "on the lab's LAN")
        spark.netem(delay=DELAY)
        no_op(spark, "at 50 ms round trip")
    finally:
        lab.down()
    return budget


def two_sparks() -> None:
    """Measure a pair: the copy from head to worker, and what it takes to serve again."""
    lab = Lab()
    lab.up(2, pair=True)
    try:
        pair = Pair(lab.spark("spark1"), lab.spark("spark2"))
        copy_table(*pair.both)
        for spark in pair.both:
            spark.reset()
        deploy(Path("/dev/null"))
        recovery_table(pair)
    finally:
        lab.down()


def main() -> int:
    """Print all tables; return 1 when a budget is exceeded."""
    commands, ratio = one_spark()
    two_sparks()
    print(f"\nBudget: {commands} commands of at most {MAX_COMMANDS}")
    print(f"Budget: {ratio:.1f} x the time of a login, of at most {MAX_RATIO} x")
    return 0 if commands <= MAX_COMMANDS and ratio <= MAX_RATIO else 1


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__).parse_args()
    enter("benchmarks", "tests.benchmarks")
    sys.exit(main())
