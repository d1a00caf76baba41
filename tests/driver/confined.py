"""What the kernel lets a running engine do, as /proc tells it of each of its processes."""

from dataclasses import dataclass

from tests.lab.spark import Handle

# A line for each process of the engine's container: its capabilities, NoNewPrivs, seccomp, whether
# its root is mounted read-only, and how many threads its control group may have. Control groups of
# version 1 have a tree for each controller.
_LOOK = """
id=$(docker ps --quiet --filter label=sparkwright.release)
for pid in $(docker top "$id" -eo pid | tail -n +2); do
  group=$(sed -n 's/^[0-9]*:pids://p' "/proc/$pid/cgroup")
  [ -n "$group" ] && group=/sys/fs/cgroup/pids$group ||
    group=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$pid/cgroup")
  root=$(awk '$5 == "/" {split($6, option, ","); print option[1]}' "/proc/$pid/mountinfo")
  sed -n 's/^\\(Cap[A-Z][a-z]*\\|NoNewPrivs\\|Seccomp\\):\\t//p' "/proc/$pid/status" | tr '\\n' ' '
  echo "$root $(cat "$group/pids.max")"
done"""


@dataclass(frozen=True)
class Confinement:
    """What a process may do; `capabilities` has all that it has, may get, or passes on, as bits.

    Its system calls are `filtered`; its container may have any number of threads if None.
    """

    capabilities: int
    no_new_privileges: bool
    filtered: bool
    read_only: bool
    threads: int | None


# What a process of vLLM may do.
CONFINED = Confinement(
    capabilities=0, no_new_privileges=True, filtered=True, read_only=True, threads=8192
)


def confinement(spark: Handle) -> set[Confinement]:
    found = set()
    for line in spark.run("sudo sh -s", stdin=_LOOK).stdout.splitlines():
        *sets, ambient, fresh, seccomp, root, threads = line.split()
        bits = 0
        for each in (*sets, ambient):
            bits |= int(each, 16)
        most = None if threads == "max" else int(threads)
        found.add(Confinement(bits, fresh == "1", seccomp == "2", root == "ro", most))
    return found
