"""make bench: what runs cost on a virtual Spark of its own, as ratios.

python -m tests.benchmarks [FOLDER]: prints all tables, and puts them into FOLDER/performance.md,
docs by default. Fleets alone: python -m tests.benchmarks.fleet.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.benchmarks.fleet import fleet_table
from tests.benchmarks.no_op import LOGIN, OURS, START, no_op_table
from tests.benchmarks.page import PAGE, last_figures, write_page
from tests.benchmarks.tools import FIGURES
from tests.driver.product import DEPLOY, PROJECT, command, env, remote_commands
from tests.lab.lab import Lab
from tests.lab.spark import Handle
from tests.lab.state import SHARD

MAX_COMMANDS = 3
# The aim for a run that changes nothing: logins in its time, beyond pyinfra's own start.
AIM_RATIO = 4


def commands() -> int:
    """Return how many commands a run that changes nothing asks of a Spark; print the operations."""
    calls = remote_commands(DEPLOY, "-y")
    remote = sum(seconds for _, seconds in calls)
    print(f"\nA run that changes nothing waits {remote:.2f} s for {len(calls)} commands")
    seconds: Counter[str] = Counter()
    for operation, duration in calls:
        seconds[operation] += duration
    numbers = Counter(operation for operation, _ in calls)
    for operation, duration in seconds.most_common():
        print(f"    {duration:5.2f} s  {numbers[operation]:2}  {operation}")
    return len(calls)


def from_factory(spark: Handle) -> None:
    """Show where the time goes from the factory state to a real completion."""
    spark.reset()
    run = subprocess.Popen(
        [*command("inventory/lab.py"), DEPLOY, "-y"],
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
    """Measure one Spark, and fleets of it."""
    lab = Lab()
    lab.up(1)
    try:
        spark = lab.spark("spark1")
        from_factory(spark)
        asked = commands()
        table = no_op_table(spark)
        fleet_table(spark)
    finally:
        lab.down()
    beyond = table[OURS].seconds - table[START].seconds
    return asked, beyond / table[LOGIN].seconds


def measure() -> int:
    """Print all tables, in a shard; return 1 when a run takes more commands than it may."""
    asked, ratio = one_spark()
    print(f"\nBudget: {asked} commands of at most {MAX_COMMANDS}")
    print(f"Aim: at most {AIM_RATIO} x a login beyond pyinfra's start; found {ratio:.1f} x")
    return 0 if asked <= MAX_COMMANDS else 1


def main(folder: Path) -> int:
    """Measure in a shard, whose files go with it but for the figures, and write the page.

    Where a run ends early, the page gets what was measured until then.
    """
    shutil.rmtree(FIGURES, ignore_errors=True)
    shard = [sys.executable, "-m", "tests.lab.shard", "benchmarks"]
    status = subprocess.call([*shard, "--", sys.executable, "-m", "tests.benchmarks"])
    write_page(folder, last_figures())
    return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=PAGE.parent, metavar="FOLDER")
    folder = parser.parse_args().folder
    sys.exit(measure() if SHARD else main(folder))
