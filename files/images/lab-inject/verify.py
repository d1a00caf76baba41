"""verify VERSION UNITS NAME: is this still that vLLM, and has the library all units?"""

import sys
from importlib.metadata import version
from pathlib import Path


def main(expected: str, least: str, name: str) -> None:
    """Fail with a sentence if it is not."""
    found = version("vllm")
    if found != expected:
        sys.exit(f"found vLLM {found}; expected the base's own {expected}")
    units = len(Path("/usr/local/lib/lab/units").read_text("utf-8").splitlines())
    if units < int(least):
        sys.exit(f"found {units} units in {name}; expected at least {least}")
    print(f"vLLM {expected} with {units} units for {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
