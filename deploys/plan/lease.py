"""A lease on a Spark: one run at a time changes it, and a dead run does not hold it for ever."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

# Seconds after which a lease that nobody renews has run out, and between two renewals. A link
# counts as dead after 60 s (deploys/session.py): a run that lives misses no lease before that.
SECONDS, RENEWAL = 90, 20

# In memory: a Spark that boots has no run. The folder itself is what flock locks.
FOLDER = "/run/sparkwright"


@dataclass(frozen=True)
class Holder:
    """A run of pyinfra.

    Attributes:
        machine: the machine that it runs on, by an id of its own.
        process: its process there.
        name: who and what, for people: one line.
    """

    machine: str
    process: int
    name: str


@dataclass(frozen=True)
class Lease:
    """What stands on a Spark.

    Attributes:
        holder: whose lease it is; None where nobody has one.
        seconds: until it runs out.
    """

    holder: Holder | None
    seconds: int


def take_script(holder: Holder, over: Holder | None = None) -> str:
    """Return the POSIX shell script that takes or renews a lease, and prints what then stands.

    Args:
        holder: who wants it.
        over: whose lease it may take over, because that run is dead.
    """
    mine = shlex.quote(_key(holder))
    free = f'[ "$key" = {shlex.quote(_key(over))} ] || ' if over else ""
    return f"""
mkdir -p {FOLDER} && exec 9<{FOLDER} && flock 9 || exit 1
now=$(cut -d. -f1 /proc/uptime)
key= until=0 name=
[ -e {FOLDER}/lease ] && read -r key until name < {FOLDER}/lease
if [ -z "$key" ] || [ "$key" = {mine} ] || {free}[ "$until" -le "$now" ]; then
  key={mine} until=$((now + {SECONDS})) name={shlex.quote(holder.name)}
  printf '%s %s %s\\n' "$key" "$until" "$name" > {FOLDER}/lease.new || exit 1
  mv {FOLDER}/lease.new {FOLDER}/lease || exit 1
fi
printf '%s %s %s\\n' "$key" $((until - now)) "$name\""""


def give_back_script(holder: Holder) -> str:
    """Return the POSIX shell script that ends a lease; another's stays."""
    return f"""
exec 9<{FOLDER} && flock 9 || exit 0
read -r key rest < {FOLDER}/lease && [ "$key" = {shlex.quote(_key(holder))} ] && rm {FOLDER}/lease
true"""


def parse_lease(output: Iterable[str]) -> Lease:
    """Return what `take_script` printed.

    Raises:
        ValueError: this is not it.
    """
    lines = list(output)
    if len(lines) != 1:
        raise ValueError(f"found {lines}; expected one line")
    key, seconds, name = lines[0].split(" ", 2)
    machine, _, process = key.rpartition(":")
    return Lease(Holder(machine, int(process), name), int(seconds))


def _key(holder: Holder) -> str:
    return f"{holder.machine}:{holder.process}"
