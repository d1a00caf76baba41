"""Writes the table of vLLM's options and variables anew, by what its releases say.

    python -m tests.recipes.names [RELEASE …]

asks the releases named, by default those of the table and those by which recipes are checked.
Kinds of trust stay; a new name gets the kind `unknown`, and so needs trust until somebody has read
what it does and moved it to a kind. Needs root and x86_64; the first time it downloads.
"""

import json
import sys
from collections.abc import Sequence

import yaml

from sparkwright.declared.recipe.vllm_names import NAMES, number
from tests.recipes import parser
from tests.recipes.environment import INSIDE, run_script
from tests.recipes.releases import checked_by

HEAD = """\
# Options of `vllm serve` and variables of vLLM. Each group has the first and the last release of
# those listed that have its names, and the kind of trust that they need: see vllm_names.py.
# `python -m tests.recipes.names` asks vLLM for the names and keeps their kinds: a new name needs
# trust (`unknown`) until somebody has read what it does.
"""


def main(words: Sequence[str]) -> None:
    """Write the table."""
    command = parser("tests.recipes.names", __doc__)
    command.add_argument("releases", nargs="*", metavar="RELEASE", help="a version of vLLM")
    content = yaml.safe_load(NAMES.read_text())
    kinds = {name: group["kind"] for group in content["groups"] for name in group["names"].split()}
    releases = command.parse_args(words).releases
    releases = releases or sorted(checked_by() | {*content["releases"]}, key=number)
    places: dict[str, list[int]] = {}
    for place, release in enumerate(releases):
        for name in json.loads(run_script(release, INSIDE / "names.py")):
            places.setdefault(name, []).append(place)
    # By the first and the last release that has them, and the kind of trust.
    groups: dict[tuple[int, int, str], list[str]] = {}
    for name, its in sorted(places.items(), key=lambda item: (item[0].isupper(), item[0])):
        groups.setdefault((its[0], its[-1], kinds.get(name, "unknown")), []).append(name)
    content = {
        "releases": releases,
        "groups": [
            {
                "first": releases[first],
                "last": releases[last],
                "kind": kind,
                "names": " ".join(groups[first, last, kind]),
            }
            for first, last, kind in sorted(groups)
        ],
    }
    NAMES.write_text(HEAD + yaml.safe_dump(content, sort_keys=False, width=100))


if __name__ == "__main__":
    main(sys.argv[1:])
