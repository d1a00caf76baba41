"""python -m tests.campaign.standbys [--turns N]: what a standby saves, with real vLLM.

Seconds to the next answer without one and from one, in turn: an engine is killed, a rank of a pair
is, and a switch finds no room for two engines.
"""

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Callable

import pytest

from tests.campaign.acts import standbys
from tests.driver.declared import changed, seed
from tests.driver.pairs import Group
from tests.driver.product import DEPLOY, pyinfra
from tests.driver.sparks import current, until
from tests.lab.lab import Lab
from tests.lab.shard import enter

# Two such KV caches do not fit into the 24 GiB of the machine that CI has.
_LARGE = 'VLLM_CPU_KVCACHE_SPACE: "1"', 'VLLM_CPU_KVCACHE_SPACE: "12"'
_SEEDS = itertools.count(1)
_PATIENCE = 900  # seconds


def killed(group: Group, *, waits: bool) -> float:
    """Kill the last rank; return the seconds to the next answer."""
    release = current(group.head)
    for spark in group.sparks:
        until(spark, f"test -e /opt/qwen36/state/standby@{release}/waits", timeout=_PATIENCE)
    if not waits:
        group.each(lambda spark: spark.run(f"sudo docker rm --force vllm-{release}-standby"))
    return group.recovery(lambda _: group.worker.run(f"sudo docker kill vllm-{release}"))


def switched(group: Group, *, waits: bool) -> float:
    """Switch to another large release; return the seconds for which nothing served."""
    with pytest.MonkeyPatch.context() as patch, changed("large", _LARGE, seed(next(_SEEDS))):
        patch.setenv("SPARKWRIGHT_LAB_STANDBY", "auto" if waits else "never")
        pyinfra(DEPLOY).succeeded()
        report = group.head.run(f"cat /opt/qwen36/jobs/switch@{current(group.head)}.json").stdout
    return float(json.loads(report)["gap"])


def compare(what: str, measure: Callable[..., float], group: Group, turns: int) -> None:
    """Print the seconds of each turn, and their ratio."""
    own, quick = [], []
    for _ in range(turns):
        own.append(measure(group, waits=False))
        quick.append(measure(group, waits=True))
    ratio = statistics.mean(quick) / statistics.mean(own)
    both = [", ".join(f"{each:.1f}" for each in seconds) for seconds in (own, quick)]
    print(f"{what}: own {both[0]}; from a standby {both[1]}; ratio {ratio:.2f}", flush=True)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.standbys", description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args(argv)
    enter("standbys", "tests.campaign.standbys", *argv)
    lab = Lab()
    with standbys():
        for sparks in (1, 2):
            lab.down()
            lab.up(sparks, together="pairs" if sparks > 1 else "alone", engine="vllm")
            group = Group(*lab.sparks())
            pyinfra(DEPLOY).succeeded()
            group.wait_serving()
            compare(f"{sparks} Spark(s), a rank killed", killed, group, options.turns)
            if sparks == 1:
                switched(group, waits=False)  # beside a small one
                compare("a switch without room for two", switched, group, options.turns)
    lab.down()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
