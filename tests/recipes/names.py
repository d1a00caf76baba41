"""Writes the table of vLLM's options and variables anew, by what its releases say.

    python -m tests.recipes.names [RELEASE …]

asks the releases named, by default those of the table and those by which recipes are checked.
Kinds of trust stay; a new name gets the kind `unknown`, and so needs trust until somebody has read
what it does and moved it to a kind. Needs root and x86_64; the first time it downloads.
"""

import argparse
import json
import sys
from collections.abc import Sequence

import yaml

from sparkwright.declared.recipe.vllm_names import NAMES, is_variable, number
from tests.recipes.add_release import checked_by
from tests.recipes.environment import INSIDE, run_script

HEAD = """\
# Options of `vllm serve` and variables of vLLM. Each group has the first and the last release of
# those listed that have its names, and the kind of trust that they need: see vllm_names.py.
# `python -m tests.recipes.names` asks vLLM for the names and keeps their kinds: a new name needs
# trust (`unknown`) until somebody has read what it does.
"""


def ask(release: str) -> set[str]:
    """Return the options and variables that a release of vLLM has; no negative forms.

    Raises:
        LabError: it cannot be had.
    """
    return set(json.loads(run_script(release, INSIDE / "names.py")))


def main(words: Sequence[str]) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.recipes.names",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help="a version of vLLM")
    releases = parser.parse_args(words).releases
    content = yaml.safe_load(NAMES.read_text())
    kinds = {name: group["kind"] for group in content["groups"] for name in group["names"].split()}
    listed = releases or sorted(checked_by() | {*content["releases"]}, key=number)
    names: dict[str, list[str]] = {}
    for release in listed:
        for name in ask(release):
            names.setdefault(name, []).append(release)
    write(
        {name: (its[0], its[-1], kinds.get(name, "unknown")) for name, its in names.items()},
        listed,
    )


def write(names: dict[str, tuple[str, str, str]], releases: Sequence[str]) -> None:
    """Write the table.

    Args:
        names: name -> first release, last release, and kind of trust.
        releases: all of the table.
    """
    order = {release: number for number, release in enumerate(releases)}
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name in sorted(names, key=lambda name: (is_variable(name), name)):
        groups.setdefault(names[name], []).append(name)
    ordered = sorted(groups, key=lambda key: (order[key[0]], order[key[1]], key[2]))
    content = {
        "releases": list(releases),
        "groups": [
            {
                "first": first,
                "last": last,
                "kind": kind,
                "names": " ".join(groups[first, last, kind]),
            }
            for first, last, kind in ordered
        ],
    }
    NAMES.write_text(HEAD + yaml.safe_dump(content, sort_keys=False, width=100))


if __name__ == "__main__":
    main(sys.argv[1:])
