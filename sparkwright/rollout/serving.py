"""The release that a Spark serves, read quickly: a rollout checks it before each step."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from sparkwright.common.host_output import MARK, read_json, sections
from sparkwright.engine.engine import own_releases, seats_script


@dataclass(frozen=True)
class ServingState:
    """The release that one Spark serves.

    Attributes:
        release: the release whose engine is active; None when none is. An active engine has given
            a token, and does so every ten seconds: its supervisor sees to that.
        invocation: systemd's id of this invocation of its unit; another one after each start.
        names: the model names by which clients ask for it.
    """

    release: str | None = None
    invocation: str = ""
    names: frozenset[str] = frozenset()


def serving_script(root: str) -> str:
    """Return the POSIX shell script that reads what serves; it exits 0, also without an engine.

    Args:
        root: the folder of the seat: it holds releases and the `current` link.
    """
    folder = shlex.quote(root)
    return f"""
{seats_script(root)}
echo {MARK}current; readlink {folder}/current
echo {MARK}engines
for unit in $(systemctl list-units --plain --no-legend --state=active 'vllm@*' | cut -d' ' -f1); do
  release=${{unit#vllm@}}; release=${{release%.service}}
  printf '%s\\t%s\\t%s\\n' "$release" "$(systemctl show -P InvocationID "$unit")" \
    "$(tr -d '\\n' < {folder}/releases/"$release"/release.json 2>/dev/null)"
done
true"""


def parse_serving(output: Iterable[str]) -> ServingState:
    """Return what the script's output lines describe.

    Raises:
        ValueError: a line is none of the script's.
        KeyError: a section is missing.
    """
    parts = sections(output)
    is_own, engines = own_releases(parts), {}
    for line in parts["engines"]:
        release, invocation, text = line.split("\t", 2)
        if not is_own(release):
            continue
        names = read_json(text).get("served_names", ()) if text else ()
        engines[release] = ServingState(release, invocation, frozenset(names))
    current = parts["current"][0].rsplit("/", 1)[-1] if parts["current"] else ""
    # Two run during a switch: until it is done, the previous one serves.
    return engines.get(current) or next(iter(engines.values()), ServingState())


def together(states: Iterable[ServingState]) -> ServingState:
    """Return what the Sparks of one replica serve: nothing unless all serve the same release.

    Args:
        states: of each Spark, the head first.
    """
    head, *others = states
    return head if all(each.release == head.release for each in others) else ServingState()
