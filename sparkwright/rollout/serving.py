"""The release of a Spark as a rollout looks at it: once before each step, so in little time."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from sparkwright.common.host_output import MARK, read_json, sections


@dataclass(frozen=True)
class Standing:
    """The release that one Spark serves.

    Attributes:
        release: the release whose engine is active; None when none is. An active engine has given
            a token, and does so every ten seconds: its supervisor sees to that.
        life: which life of its unit this is; another one after each start.
        names: the model names that it is asked for.
    """

    release: str | None = None
    life: str = ""
    names: frozenset[str] = frozenset()


def standing_script(root: str) -> str:
    """Return the POSIX shell script that reads what serves; it exits 0 on a Spark with nothing.

    Args:
        root: the folder that holds releases and the `current` link.
    """
    folder = shlex.quote(root)
    return f"""
echo {MARK}current; readlink {folder}/current
echo {MARK}engines
for unit in $(systemctl list-units --plain --no-legend --state=active 'vllm@*' | cut -d' ' -f1); do
  release=${{unit#vllm@}}; release=${{release%.service}}
  printf '%s\\t%s\\t%s\\n' "$release" "$(systemctl show -P InvocationID "$unit")" \
    "$(tr -d '\\n' < {folder}/releases/"$release"/release.json 2>/dev/null)"
done
true"""


def parse_standing(output: Iterable[str]) -> Standing:
    """Return what the script's output lines describe.

    Raises:
        ValueError: a line is none of the script's.
        KeyError: a section is missing.
    """
    found = sections(output)
    engines = {}
    for line in found["engines"]:
        release, life, text = line.split("\t", 2)
        names = read_json(text).get("served_names", ()) if text else ()
        engines[release] = Standing(release, life, frozenset(names))
    current = found["current"][0].rsplit("/", 1)[-1] if found["current"] else ""
    # Two run while one takes over from the other: until then it is the former that serves.
    return engines.get(current) or next(iter(engines.values()), Standing())


def together(standings: Iterable[Standing]) -> Standing:
    """Return what Sparks serve that serve one model: nothing unless all serve the same release.

    Args:
        standings: of each Spark, the head first.
    """
    head, *others = standings
    return head if all(each.release == head.release for each in others) else Standing()
