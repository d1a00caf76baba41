"""make bench: what runs cost on a virtual Spark of its own, as ratios.

python -m tests.benchmarks: prints all tables, and puts them into docs/performance.md.
"""

import argparse
import shutil
import subprocess
import sys

from tests.benchmarks.fleet import fleet_table
from tests.benchmarks.no_op import LOGIN, OURS, START, no_op_table
from tests.benchmarks.page import last_figures, write_page
from tests.benchmarks.tools import FIGURES
from tests.driver.product import DEPLOY, pyinfra
from tests.lab.lab import Lab
from tests.lab.state import SHARD

# The aim for a run that changes nothing: logins in its time, beyond pyinfra's own start.
AIM_RATIO = 4


def one_spark() -> float:
    lab = Lab()
    lab.up(1)
    try:
        spark = lab.spark("spark1")
        pyinfra(DEPLOY).succeeded()
        table = no_op_table(spark)
        fleet_table(spark)
    finally:
        lab.down()
    beyond = table[OURS].seconds - table[START].seconds
    return beyond / table[LOGIN].seconds


def measure() -> None:
    aim = f"Aim: at most {AIM_RATIO} x a login beyond pyinfra's start"
    print(f"\n{aim}; found {one_spark():.1f} x")


def main() -> int:
    """Measure in a shard, and write the page, also of a run that ends early."""
    shutil.rmtree(FIGURES, ignore_errors=True)
    shard = [sys.executable, "-m", "tests.lab.shard", "benchmarks"]
    status = subprocess.call([*shard, "--", sys.executable, "-m", "tests.benchmarks"])
    write_page(last_figures())
    return status


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__).parse_args()
    measure() if SHARD else sys.exit(main())
