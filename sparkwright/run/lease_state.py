"""The lock by which one run at a time changes a Spark, and the record of what runs changed."""

import shlex

# Seconds between two signs of life of the run that holds a lock, and without any until the Spark
# gives the lock up. A link counts as dead after 60 s (sparkwright/run/session.py): a run that lives
# is heard of before that.
BEAT, SILENCE = 20, 90
# Seconds that a run waits for the lock: one that was just killed holds it for a moment.
WAIT = 3

# In memory: a Spark that boots has no run.
FOLDER = "/run/sparkwright"

_HELD, _TAKEN = "held", "taken by "


def record_file(root: str) -> str:
    """Return the file on a Spark that has a line for each step of a run that changed it.

    Args:
        root: the folder of everything on the Spark.
    """
    return f"{root}/state/changes.log"


def hold_script(owner: str, root: str) -> str:
    """Return the POSIX shell script that holds a Spark's lock, and says so or who holds it.

    It holds the lock for as long as a line comes on its standard input every `SILENCE` seconds:
    with the connection of the run, or its machine, the lock ends as well. A line with words in it
    goes into the record, behind the time and the owner; until a first run has made its folder, and
    after a removal has taken it, there is none.

    Args:
        owner: who and what, for people: one line.
        root: the folder of everything on the Spark.
    """
    record = shlex.quote(record_file(root))
    return f"""record={record}
mkdir -p {FOLDER} && exec 9>>{FOLDER}/lock || exit 1
if ! flock -w {WAIT} 9; then
  since=$(date -u -r {FOLDER}/owner +%Y-%m-%dT%H:%M:%SZ)
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


def holder(said: str) -> str | None:
    """Return who else holds a lock, by the first line of `hold_script`; None if it is ours.

    Raises:
        ValueError: this is not what it says.
    """
    line = said.rstrip("\n")
    if line == _HELD:
        return None
    if line.startswith(_TAKEN):
        return line.removeprefix(_TAKEN) or "nobody knows whose"
    raise ValueError(f"found {line!r}; expected the lock, or whose it is")
