"""The script that holds the lease of a Spark, and writes the record of what runs changed."""

import shlex

from sparkwright.common.progress import time_text

# Seconds between two signs of life of the run that holds a lease, and the silence after which the
# Spark ends the lease. A connection counts as dead after 60 s (sparkwright/run/upstream.py), so a
# living run is heard of earlier.
BEAT, SILENCE = 20, 90
# Seconds that a run waits for the lease: one that was just killed holds it for a moment.
WAIT = 3

# In memory: a Spark that boots has no run.
FOLDER = "/run/sparkwright"

_HELD, _TAKEN = "held", "taken by "


def hold_script(owner: str, root: str) -> str:
    """Return the POSIX shell script that holds a Spark's lease; its first line names the holder.

    It holds the lease for as long as a line comes on its standard input every `SILENCE` seconds, so
    the lease ends with the connection of the run, or with its machine. A line that is not empty is
    added to the record, after the time and the owner. Without the record's folder, which the first
    run makes, such lines wait.
    """
    record = shlex.quote(f"{root}/state/changes.log")
    return f"""record={record}
mkdir -p {FOLDER} && exec 9>>{FOLDER}/lock || exit 1
if ! flock -w {WAIT} 9; then
  since=$(date -r {FOLDER}/owner +%s)
  printf '%s\n' "{_TAKEN}$(head -n 1 {FOLDER}/owner), since $since"
  exit
fi
printf '%s\\n' {shlex.quote(owner)} > {FOLDER}/owner || exit 1
echo {_HELD}
waiting=
while line=$(timeout {SILENCE} sh -c 'read -r line && printf "%s\\n" "$line"'); do
  [ -z "$line" ] || waiting="$waiting$(date -u +%Y-%m-%dT%H:%M:%SZ) $(cat {FOLDER}/owner): $line
"
  if [ -n "$waiting" ] && [ -d "${{record%/*}}" ]; then
    printf '%s' "$waiting" >> "$record" && waiting=
  fi
done"""


def holder(line: str) -> str | None:
    """Return who else holds the lease; None if this run does.

    Raises:
        ValueError: it is another one.
    """
    line = line.rstrip("\n")
    if line == _HELD:
        return None
    if line.startswith(_TAKEN):
        who, since, time = line.removeprefix(_TAKEN).rpartition(", since ")
        if since and time.isdecimal():
            return f"{who}, since {time_text(int(time), '%d %b %H:%M')}"
        return line.removeprefix(_TAKEN) or "nobody knows whose"
    raise ValueError(f"found {line!r}; expected the lease, or its holder")
