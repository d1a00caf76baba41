"""What takes all memory, processes or log of a Spark, from a session of its user or its engine.

Bounded, as all of a lab are one machine: by `Handle.memory`, and by a number of processes.
"""

import shlex
import subprocess
from contextlib import suppress

from tests.driver.sparks import current
from tests.lab.factory import USER
from tests.lab.spark import Handle

# Bytes that a Spark may have while a bomb goes off: twice what it needs with a stand-in, or more.
MEMORY = 3 << 30
# Processes of a fork bomb, which each take from the processors of all that the machine runs.
PROCESSES = 1000

# An ordinary session of the user's: on Ubuntu logind makes one for each login; the lab has none.
_SESSION = "session-bomb.scope"
_MARK = "sparkwright_bomb"
_HOG = f"{_MARK} = []\nwhile True: {_MARK}.append(b'x' * (32 << 20))"
HOG = f"while :; do python3 -c {shlex.quote(_HOG)}; done"
FORKS = f"{_MARK}() {{ {_MARK} | {_MARK} & }}; {_MARK}; sleep infinity"
FLOOD = f"yes {_MARK}"
# The machine's processes are all of the lab's: a session gets fewer than on a Spark.
_BOUND = f"""
mkdir -p /run/systemd/system/session-.scope.d
printf '[Scope]\\nTasksMax={PROCESSES}\\n' > /run/systemd/system/session-.scope.d/zz-lab.conf
systemctl daemon-reload
"""
# What forks is stopped first, or it is faster. The pattern does not find itself.
_END = f"""
systemctl kill --signal=KILL {_SESSION} 2>/dev/null
for round in $(seq 50); do
    pkill -STOP -f '{_MARK[:-1]}[{_MARK[-1]}]'
    pkill -KILL -f '{_MARK[:-1]}[{_MARK[-1]}]' || break
done
rm -rf /run/systemd/system/session-.scope.d; systemctl daemon-reload
"""


def in_session(spark: Handle, script: str) -> None:
    """Start a shell script in a session of the user's, and return."""
    spark.run("sudo sh -s", stdin=_BOUND)
    place = f"--scope --collect --quiet --unit={_SESSION} --slice=user-1000.slice --uid={USER}"
    command = f"sudo systemd-run {place} sh -c {shlex.quote(script)}"
    spark.run(f"nohup {command} < /dev/null > /dev/null 2>&1 &")


def in_engine(spark: Handle, script: str) -> bool:
    """Start a shell script in the engine's container; tell whether there was one."""
    words = f"sudo docker exec --detach vllm-{current(spark)} sh -c {shlex.quote(script)}"
    return spark.run(words, check=False).returncode == 0


def tasks(spark: Handle) -> int:
    """Return how many processes the session has."""
    return int(spark.run(f"systemctl show -P TasksCurrent {_SESSION}").stdout)


def end(spark: Handle) -> None:
    """End what still goes on, and let the Spark have its memory again."""
    spark.memory()
    # It is off, or boots: what it had is gone with it.
    with suppress(subprocess.SubprocessError):
        spark.run("sudo sh -s", stdin=_END)
