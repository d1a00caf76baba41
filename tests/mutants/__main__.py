"""Changes the code, one change at a time, and lists those that no test notices.

    python -m tests.mutants [--seed N] [--sample N] [--jobs N] [PATH …]

The sample is drawn from files/**/*.py and the modules of sparkwright that know no pyinfra; it stays
the same where the code does. With PATH …, only the part of it in these files and folders is tried.
Tests run in copies of the tree, and need root. Exit status 1: more than a tenth survived.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from itertools import accumulate
from pathlib import Path

from tests.mutants.changes import Change, changed, changes
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.reach import Test, reach
from tests.mutants.trees import ROOT, copies, pytest

CODE = ("files/**/*.py", "sparkwright/*/*.py")
# Run by hosts, by pyinfra, or on Sparks alone.
OTHERS = re.compile(r"facts|operations|deploy|__init__|__main__|test_\w+")
ACCEPTED = 0.1
# Seconds of tests for one change, and how many tests come first.
LIMIT, FIRST = 120, 10
# Seconds after which they hang.
TIMEOUT = 5 * LIMIT
# Tests below start no program.
PURE = "tests/unit/"


def main(words: Sequence[str]) -> int:
    """Draw a sample, try it, and print what survives. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("paths", nargs="*", type=Path)
    options = parser.parse_args(words)
    sample = [
        change
        for change in draw(options.seed, options.sample)
        if not options.paths or any(Path(change.path).is_relative_to(p) for p in options.paths)
    ]
    blocks = reach(_code(), options.jobs)
    survivors = 0
    with copies({}) as copy, ThreadPoolExecutor(options.jobs) as pool:

        def survives(change: Change) -> bool:
            tests = blocks.get(f"{change.path}:{change.block}", [])
            with copy() as tree:
                file = tree / change.path
                file.write_text(changed(file.read_text(), change))
                return not is_noticed(tree, those_that_name(file.stem, tests))

        waiting = {pool.submit(survives, change): change for change in sample}
        for number, done in enumerate(as_completed(waiting), 1):
            if done.result():
                survivors += 1
                print(waiting[done], flush=True)
            if number % 10 == 0:
                print(f"{number} of {len(sample)} tried", file=sys.stderr)
    share = survivors / max(1, len(sample))
    print(f"{survivors} of {len(sample)} changes survived: {share:.1%}")
    return 1 if share > ACCEPTED else 0


def draw(seed: int, number: int) -> list[Change]:
    """Draw changes by chance, but the same ones for the same seed."""
    every = [each for path in _code() for each in changes(str(path), (ROOT / path).read_text())]
    every = [each for each in every if (each.path, each.before, each.after) not in EQUIVALENT]
    every.sort(key=lambda each: hashlib.sha256(f"{seed} {each.identity}".encode()).digest())
    return every[:number]


def those_that_name(module: str, tests: Sequence[Test]) -> list[Test]:
    """Put the tests first whose files name a module: the others may only import it."""
    return sorted(tests, key=lambda test: module not in _words(test.name.partition("::")[0]))


@cache
def _words(path: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", (ROOT / path).read_text()))


def is_noticed(tree: Path, tests: Sequence[Test]) -> bool:
    """Whether a test fails in a changed copy of the tree, or hangs there."""
    seconds = accumulate(test.seconds for test in tests)
    names = [test.name for test, total in zip(tests, seconds, strict=True) if total < LIMIT]
    # Most changes are noticed at once, before all that reaches them is imported.
    return any(_fails(tree, some) for some in (names[:FIRST], names[FIRST:]))


def _fails(tree: Path, names: list[str]) -> bool:
    while names:
        failed = _first_failure(tree, names)
        if failed is None:
            return False
        # A test that runs programs may fail by chance: then it does not fail again, alone.
        maybe_chance = failed in names and not failed.startswith(PURE)
        if not maybe_chance or _first_failure(tree, [failed]) is not None:
            return True
        names.remove(failed)
    return False


def _first_failure(tree: Path, names: Sequence[str]) -> str | None:
    """Run tests; return the first that fails, "" where one hangs or nothing can be imported."""
    try:
        done = pytest(tree, ["-q", "-x", "--tb=no", "-rfE", *names], TIMEOUT)
    except subprocess.TimeoutExpired:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) ([^ \[]+::[^ \[]+)", done.stdout, re.MULTILINE)
    return (found[1] if found else "") if done.returncode else None


def _code() -> list[Path]:
    paths = {path.relative_to(ROOT) for pattern in CODE for path in ROOT.glob(pattern)}
    return sorted(p for p in paths if p.parts[0] == "files" or not OTHERS.fullmatch(p.stem))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
