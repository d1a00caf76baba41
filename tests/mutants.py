"""Changes the code of a wing, and lists the changes that none of its unit tests notices.

    make mutants OF=sparkwright/plan/memory        .mutants/bin/python -m tests.mutants PATH

PATH is a wing, or a folder or file in one, of sparkwright or files/host; the tests are those of the
same place in tests/unit. Cosmic Ray makes the changes, in a copy of the tree; of all that it knows
a sample is tried, the same for the same seed.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
# Seconds after which the tests hang.
LIMIT = 300.0
# Nearly all of them are in annotations, which no test runs.
EXCLUDED = "core/ReplaceBinaryOperator_BitOr_.*"


def main(words: Sequence[str]) -> None:
    """Try a sample of changes, and print those that survive."""
    parser = argparse.ArgumentParser(prog="tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("path", type=Path)
    options = parser.parse_args(words)
    with TemporaryDirectory(prefix="sparkwright-mutants-") as folder:
        tree, session = Path(folder, "tree"), str(Path(folder, "session.sqlite"))
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "test-results"))
        config = Path(folder, "config.toml")
        config.write_text(_config(options.path))
        # The tests pass without a change.
        run(tree, "cosmic-ray", "baseline", config)
        run(tree, "cosmic-ray", "init", config, session)
        run(tree, "cr-filter-operators", session, config)
        _choose(session, options.sample, options.seed)
        run(tree, "cosmic-ray", "exec", config, session)
        _report(session)


def tests_of(path: Path) -> Path:
    """Return the folder of unit tests that is nearest to a path of the code."""
    inner = path.relative_to("files/host" if path.parts[0] == "files" else "sparkwright")
    places = (Path("tests/unit", each) for each in (inner, *inner.parents))
    return next(each for each in places if (ROOT / each).is_dir())


def run(tree: Path, program: str, *words: str | Path) -> None:
    """Run a program of Cosmic Ray in a copy of the tree."""
    subprocess.run([Path(sys.executable).with_name(program), *words], cwd=tree, check=True)


def _config(path: Path) -> str:
    pytest = f"{ROOT}/.venv/bin/python -m pytest -q -x -p no:cacheprovider {tests_of(path)}"
    return (
        f"[cosmic-ray]\nmodule-path = {json.dumps(str(path))}\nexcluded-modules = []\n"
        f"timeout = {LIMIT}\ntest-command = {json.dumps(pytest)}\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
        f'[cosmic-ray.filters.operators-filter]\nexclude-operators = ["{EXCLUDED}"]\n'
    )


def _choose(session: str, number: int, seed: int) -> None:
    """Skip all changes but a sample."""
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import WorkerOutcome, WorkResult

    with use_db(session, WorkDB.Mode.open) as work:
        places = {each.job_id: str(each.mutations) for each in work.pending_work_items}
        order = sorted(places, key=places.__getitem__)
        random.Random(seed).shuffle(order)
        work.set_multiple_results(order[number:], WorkResult(WorkerOutcome.SKIPPED))


def _report(session: str) -> None:
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import TestOutcome, WorkerOutcome

    with use_db(session, WorkDB.Mode.open) as work:
        results = [each for _, each in work.results if each.worker_outcome != WorkerOutcome.SKIPPED]
    survived = [each.diff for each in results if each.test_outcome == TestOutcome.SURVIVED]
    print("\n".join([*survived, f"{len(survived)} of {len(results)} changes survived"]))


if __name__ == "__main__":
    main(sys.argv[1:])
