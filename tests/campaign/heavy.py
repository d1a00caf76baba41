"""python -m tests.campaign.heavy [--minutes N] [--engine stand-in]: a pair works hard, no more.

Nothing may take that for a fault: no engine, supervisor or door begins again, no client sees but
whole answers, no notice is due, and the doctor names no cause.
Exit status: 0 there was no false alarm, 1 there was one.
"""

import argparse
import os
import shlex
import sys
import time
from collections.abc import Iterator
from typing import get_args

from tests.driver.load import load
from tests.driver.product import DEPLOY, pyinfra
from tests.driver.sparks import forget, until
from tests.lab.lab import Lab
from tests.lab.shard import enter
from tests.lab.spark import Handle
from tests.lab.state import Engine

# What a Spark may have, and what is held of it.
_MEMORY, _HELD, _PROCESSES = 5 << 30, 2 << 30, 1500
# Loops that use the processors, one that writes to the disk, one that logs, and what holds memory.
_LOOPS = 2
_HEAVY = f"""
for _ in $(seq {_LOOPS}); do sh -c 'while :; do :; done' & done
sh -c 'while dd if=/dev/zero of=/var/load bs=1M count=64 conv=fsync; do sleep 1; done' &
sh -c 'while :; do echo working; sleep 0.1; done' | systemd-cat --identifier=heavy &
python3 -c '
import signal
held = bytearray({_HELD})
held[::4096] = b"1" * len(held[::4096])
signal.pause()' &
wait
"""
_LIVES = """
cat /proc/sys/kernel/random/boot_id
systemctl show -P Id -P InvocationID -P NRestarts 'vllm@*' 'door*' docker ssh systemd-journald
docker ps --no-trunc --format '{{.Names}} {{.ID}}' | sort
cat /opt/qwen36/state/notify/notices.json
"""
# Nobody has this address: a notice that is due stays in the record.
_WEBHOOK = ("--data", "notify=http://10.213.0.250:9/sparks")
# They ask for answers of so many tokens, and no fewer.
_CUT_SHORT = "[content-null]"
# Seconds between two looks; and how long the machine's average of load looks back.
_LOOK, _SETTLED = 30, 60


def lives(spark: Handle) -> str:
    """Return what tells the life of each thing that serves from its next one, and the notices."""
    return spark.run("sudo sh -s", stdin=_LIVES, timeout=120).stdout


def causes() -> list[str]:
    """Return the causes that the doctor names, but for what the clients themselves do."""
    lines = pyinfra("deploys/doctor.py").succeeded().output.splitlines()
    named = [line for line in lines if "cause: " in line or "perhaps: " in line]
    return [line for line in named if _CUT_SHORT not in line]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.heavy", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--engine", choices=get_args(Engine), default="vllm")
    options = parser.parse_args(argv)
    enter("heavy", "tests.campaign.heavy", *argv)
    lab = Lab()
    lab.down()
    lab.up(2, "own-disk", together="pairs", engine=options.engine)
    sparks = lab.sparks()
    pyinfra(DEPLOY, *_WEBHOOK).succeeded()
    for spark in sparks:
        forget(spark)
    until(sparks[0], "test -e /opt/qwen36/state/notify/notices.json")
    before, named = [lives(spark) for spark in sparks], causes()
    with load(sparks[0]) as seen:
        for spark in sparks:
            spark.bound(_MEMORY, _PROCESSES)
            spark.run(f"nohup sudo sh -c {shlex.quote(_HEAVY)} >/dev/null 2>&1 </dev/null &")
        found = list(_watch(sparks, before, 60 * options.minutes))
        found += [f"a client saw {each.problem}" for each in seen.failed]
    found += [f"the doctor says {line}" for line in causes() if line not in named]
    print(f"{len(seen.answers)} answers; {len(found)} false alarms", *found, sep="\n  ")
    return 1 if found else 0


def _watch(sparks: list[Handle], before: list[str], seconds: float) -> Iterator[str]:
    """Look until the time is over; yield each look in which something else lives, or is due."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        load_average = os.getloadavg()[0]
        print(f"{passed:.0f} s: load {load_average:.1f}", flush=True)
        if passed > 2 * _SETTLED and load_average < _LOOPS:
            yield f"after {passed:.0f} s the load is {load_average:.1f}: the work has ended"
            return
        for spark, lived in zip(sparks, before, strict=True):
            if (now := lives(spark)) != lived:
                yield f"{spark.name}, after {passed:.0f} s; before:\n{lived}now:\n{now}"
                return
        time.sleep(_LOOK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
