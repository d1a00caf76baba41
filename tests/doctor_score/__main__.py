"""How often does the doctor find the cause that a public thread found?

The misses of the working part are what a new entry is written with. Those of the scored part are
never printed: whoever saw them would write entries for them.
"""

import argparse

from sparkwright.doctor.report import SHOWN
from tests.doctor_score.corpus import PARTS, WORKING, load
from tests.doctor_score.score import Score, score


def main() -> None:
    """Print the figures of both parts."""
    parser = argparse.ArgumentParser(prog="python -m tests.doctor_score", description=__doc__)
    parser.add_argument(
        "--misses", action="store_true", help="also print what is missed in the working part"
    )
    misses = parser.parse_args().misses
    for part in PARTS:
        found = score(load(part))
        print(f"{part}: {figures(found)}")
        if misses and part == WORKING:
            for case, names in found.missed:
                print(f"  {case.name}: {case.cause}, not {', '.join(names[:SHOWN]) or 'nothing'}")
            for name in found.alarms:
                print(f"  {name}: a false alarm")


def figures(found: Score) -> str:
    """Return the figures of a part, for people."""
    return (
        f"{found.incidents} incidents, top-1 {found.first} ({found.first / found.incidents:.0%}), "
        f"top-{SHOWN} {found.shown} ({found.shown / found.incidents:.0%}); "
        f"{found.healthy} healthy logs, {len(found.alarms)} false alarms"
    )


if __name__ == "__main__":
    main()
