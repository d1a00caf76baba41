"""How often does the doctor find the cause that a public thread found?

The misses of the working parts are what a new entry is written with. Those of the scored parts are
to be seen only by somebody who writes no entries: whoever saw them would write entries for them.
"""

import argparse

from sparkwright.insight.doctor.report import SHOWN
from tests.doctor_score.score import FRESH_WORKING, PARTS, WORKING, load, score


def main() -> None:
    """Print the figures of every part."""
    parser = argparse.ArgumentParser(prog="python -m tests.doctor_score", description=__doc__)
    parser.add_argument(
        "--misses", action="store_true", help="also print what is missed in the working parts"
    )
    options = parser.parse_args()
    told = {WORKING, FRESH_WORKING} if options.misses else set()
    for part in PARTS:
        found = score(load(part))
        print(f"{part}: {found}")
        if part in told:
            for case, names in found.missed:
                print(f"  {case.name}: {case.cause}, not {', '.join(names[:SHOWN]) or 'nothing'}")
            for name in found.alarms:
                print(f"  {name}: a false alarm")


if __name__ == "__main__":
    main()
