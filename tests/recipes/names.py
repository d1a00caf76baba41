"""Writes the table of vLLM's options and variables anew, by what its releases say.

    python -m tests.recipes.names [RELEASE …]

asks the releases named, those of the table by default. Kinds of trust stay; a new name gets a `?`,
so that it asks for trust until somebody has read what it does and written a kind in its place.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from sparkwright.recipe.vllm_names import NAMES, is_variable
from tests.recipes.environment import INSIDE, run_script


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
    lines = NAMES.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    rows = [line.split() for line in lines if not line.startswith("#")]
    kinds = {row[0]: row[3] for row in rows if row[0] != "releases"}
    listed = releases or next(row[1:] for row in rows if row[0] == "releases")
    names: dict[str, list[str]] = {}
    for release in listed:
        for name in ask(release):
            names.setdefault(name, []).append(release)
    table = [
        f"{name} {names[name][0]} {names[name][-1]} {kinds.get(name, '?')}"
        for name in sorted(names, key=lambda name: (is_variable(name), name))
    ]
    NAMES.write_text("\n".join([*head, " ".join(["releases", *listed]), *table]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
