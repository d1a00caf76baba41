"""What takes all memory, processes or log of a Spark, from a session of its user or its engine.

All of a lab are one machine: nothing goes off before `bound` has been called.
"""

import shlex
import subprocess
from contextlib import suppress

from tests.driver.sparks import current
from tests.lab.factory import USER
from tests.lab.spark import Handle

# What a Spark may have while a bomb goes off: bytes, twice what it needs with a stand-in or more,
# and processes, of which all the machine's other programs get their share of processors.
_MEMORY, _PROCESSES = 3 << 30, 1500
# Processes of a fork bomb.
FORKED = 600

_MARK = "sparkwright_bomb"
_HOG = f"{_MARK} = []\nwhile True: {_MARK}.append(b'x' * (32 << 20))"
HOG = f"while :; do python3 -c {shlex.quote(_HOG)}; done"
FORKS = f"{_MARK}() {{ {_MARK} | {_MARK} & }}; {_MARK}; sleep infinity"
FLOOD = f"yes {_MARK}"
# What forks is stopped first, or it is faster. The pattern does not find itself.
_END = f"""
for round in $(seq 50); do
    pkill -STOP -f '{_MARK[:-1]}[{_MARK[-1]}]'
    pkill -KILL -f '{_MARK[:-1]}[{_MARK[-1]}]' || break
done
"""


def bound(spark: Handle) -> None:
    """Have what goes off on a Spark end at that Spark."""
    spark.bound(_MEMORY, _PROCESSES)


def in_session(spark: Handle, script: str) -> None:
    """Start a shell script in a session of the user's, and return. The lab has no logind."""
    place = f"--scope --collect --quiet --slice=user-1000.slice --uid={USER}"
    command = f"sudo systemd-run {place} sh -c {shlex.quote(script)}"
    spark.run(f"nohup {command} < /dev/null > /dev/null 2>&1 &")


def in_engine(spark: Handle, script: str) -> bool:
    """Start a shell script in the engine's container; tell whether there was one.

    Its bound of processes is lower than on a Spark.
    """
    name = f"vllm-{current(spark)}"
    lower = f"sudo docker update --pids-limit {FORKED} {name}"
    start = f"sudo docker exec --detach {name} sh -c {shlex.quote(script)}"
    return spark.run(f"{lower} && {start}", check=False).returncode == 0


def end(spark: Handle) -> None:
    """End what still goes on, and let the Spark have all that the machine has again."""
    # It is off, or boots: what it had is gone with it.
    with suppress(subprocess.SubprocessError):
        spark.run("sudo sh -s", stdin=_END)
    spark.bound()
