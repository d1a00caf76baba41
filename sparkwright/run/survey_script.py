"""The shell script of a survey: many facts of a Spark, read side by side in one command."""

import shlex
from collections.abc import Iterator, Sequence

from pyinfra.connectors.util import CommandOutput, OutputLine

from sparkwright.common.host_output import SHARED

# Seconds for one script of a survey; the fact of one that hangs is asked for by itself.
_PATIENCE = 30


def survey_script(scripts: Sequence[str], mark: str) -> str:
    """Return the POSIX shell script that runs others side by side, and prints their outputs.

    Before each output stands a line with the mark and the script's number; after it, if the script
    has ended in time, one with its exit status as well.
    """
    begun = "".join(
        f"{{ echo '{mark} {number}'; ( eval {shlex.quote(text)} ) </dev/null 2>/dev/null\n"
        # The mark is on a line of its own, also where an output does not end with one.
        f"printf '\\n{mark} {number} %s\\n' $?; }} >\"${SHARED}/{number}\" &\n"
        for number, text in enumerate(scripts)
    )
    outputs = " ".join(f'"${SHARED}/{number}"' for number in range(len(scripts)))
    # One shell for all of them: each by a shell and a timeout of its own took a tenth of the time.
    return f"""{SHARED}=$(mktemp -d) || exit
export {SHARED}
trap 'rm -rf "${SHARED}"' EXIT
timeout {_PATIENCE} sh -s <<'{mark}'
{begun}wait
{mark}
cat {outputs}
"""


def answers_of(
    keys: Sequence[str], lines: Sequence[str], mark: str
) -> Iterator[tuple[str, tuple[bool, CommandOutput]]]:
    """Yield the answers of the scripts that have succeeded, each with its key."""
    own: list[str] = []
    for line in lines:
        match line.split() if line.startswith(f"{mark} ") else ():
            case [_, _]:
                own = []
            case [_, number, status]:
                output = own[:-1] if own and not own[-1] else own
                if status == "0":
                    said = CommandOutput([OutputLine("stdout", each) for each in output])
                    yield keys[int(number)], (True, said)
                own = []
            case _:
                own.append(line)
