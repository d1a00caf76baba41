"""What owners have proved: the files of docs/records, each of an owner, checked and told in a line.

They are in docs as the site publishes them beside the page that counts them.

    python -m tests.recipes.records FILE...    checks files before they come there
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.schema import nearest, parse
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.recipe import Figures
from sparkwright.plan.release.release import repository
from sparkwright.verify.record import ProofRecord, RecordFile

FOLDER = Path(__file__).parents[2] / "docs" / "records"


@cache
def owners(folder: Path) -> tuple[list[ProofRecord], ...]:
    """Return the records of each owner, by the files of a folder."""
    return tuple(read(path) for path in sorted(folder.glob("*.yaml")))


def read(path: Path) -> list[ProofRecord]:
    """Return the records of a file.

    Raises:
        PlanError: A problem for each fault of it.
    """
    with yaml.lines_of(path):
        records = parse(RecordFile, yaml.load(path), str(path)).records
        refuse(
            f"{path}: records[{number}].{problem}"
            for number, each in enumerate(records)
            for problem in _problems(each)
        )
    return records


def _problems(record: ProofRecord) -> Iterator[str]:
    names = recipe_names()
    if record.recipe not in names:
        yield f"recipe: found {record.recipe}; {nearest(record.recipe, names)}"
        return
    recipe, count = load_recipe(record.recipe), len(record.machines)
    if record.hardware not in recipe.hardware or record.hardware == "lab":
        expected = nearest(record.hardware, {*recipe.hardware} - {"lab"})
        yield f"hardware: found {record.hardware}; {expected}"
    if count not in recipe.sparks:
        expected = " or ".join(map(str, recipe.sparks))
        yield f"machines: found {count}; expected {expected} ({recipe.name})"
    repo = recipe.checkpoints["model"].repo
    if record.model.partition("@")[0] != repo:
        yield f"model: found {record.model}; expected {repo}@COMMIT"
    known = recipe.build.repository if recipe.build else repository(recipe.base_image)
    if repository(record.image) != known:
        yield f"image: found {record.image}; expected {known}, with its digest"
    if record.date > (today := f"{datetime.now(UTC):%Y-%m-%d}"):
        yield f"date: found {record.date}; expected {today} or earlier"


def proofs(recipe: str, speed: Callable[[Figures], str], folder: Path = FOLDER) -> str:
    """Return who has run a recipe, when last, and with what; "" where there is no record.

    Args:
        speed: Words figures.
    """
    found = [[each for each in own if each.recipe == recipe] for own in owners(folder)]
    count = sum(map(bool, found))
    if not count:
        return ""
    last = max((each for own in found for each in own), key=lambda each: each.date)
    machine = last.machines[0]
    with_what = {"driver": machine.driver, "kernel": machine.kernel, "DGX OS": machine.dgx_os}
    parts = [f"{name} {value}" for name, value in with_what.items() if value]
    if len(last.machines) > 1:
        parts.insert(0, "on 2")
    if last.figures:
        parts.append(f"{speed(last.figures)} tokens/s")
    who = "an owner" if count == 1 else f"{count} owners"
    said = f"run by {who}, last on {last.date}"
    return f"{said}, with {', '.join(parts)}" if parts else said


def main(paths: list[Path]) -> int:
    """Check files; return 1 if one is refused."""
    refused = 0
    for path in paths:
        try:
            print(f"{path}: {len(read(path))} records, all good")
        except PlanError as error:
            print(error, file=sys.stderr)
            refused = 1
    return refused


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.recipes.records", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE")
    sys.exit(main(parser.parse_args().paths))
