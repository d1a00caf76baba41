"""The records of owners in docs/records: each file checked, and summed up in a line.

They are in docs as the site publishes them beside the page that counts them.

    python -m tests.recipes.records FILE...    checks files before they come there
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.schema import Model, nearest, parse, shown
from sparkwright.declared.recipe.loader import recipe_names
from sparkwright.declared.recipe.recipe import Figures
from sparkwright.declared.recipe.workloads import EXPECTED
from sparkwright.plan.release.release import repository
from sparkwright.run.spark import recipe_of
from sparkwright.verify.record import FORMS, SPEEDS

FOLDER = Path(__file__).parents[2] / "docs" / "records"
# Tokens a second.
_FASTEST = 100_000
_NAME = "[A-Za-z0-9][A-Za-z0-9_.-]*"


def _text(form: str, example: str) -> Any:
    about = f"text such as {example}"
    return Field(max_length=200, pattern=f"^({form})$", description=about)


class ProofRecord(Model):
    """The proof of one replica on one day, as `sparkwright verify --record` writes it."""

    recipe: str = _text(_NAME, "qwen3.6-35b-nvidia")
    date: str = _text("20[0-9]{2}-[01][0-9]-[0-3][0-9]", "2026-11-28, in quotes")
    sparkwright: str = _text("[0-9]{1,5}([.][0-9]{1,5}){2}", "0.1.0")
    hardware: str = _text(_NAME, "gb10")
    machines: list[dict[str, str]] = Field(min_length=1, max_length=2, description="one a Spark")
    model: str = _text(f"{_NAME}/{_NAME}@[0-9a-f]{{40}}", "OWNER/NAME@COMMIT")
    image: str = _text("[a-z0-9._/:-]+(@sha256:[0-9a-f]{64}|:[0-9a-f]{12})", "NAME@sha256:…")
    proved: int = Field(ge=1, le=1000, description="how many sentences were proved")
    rebooted: bool = Field(description="true if it served again after a reboot")
    figures: Figures = Field(default_factory=dict)


class RecordFile(Model):
    """The file of one owner."""

    records: list[ProofRecord] = Field(min_length=1, max_length=50, description="a list of records")


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
    recipe, count = recipe_of(record.recipe), len(record.machines)
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
    for number, machine in enumerate(record.machines):
        for name, value in machine.items():
            where = f"machines[{number}].{name}"
            if name not in FORMS:
                yield f"{where}: found an unknown key; {nearest(name, FORMS)}"
            elif not re.fullmatch(FORMS[name], value, re.ASCII):
                yield f"{where}: found {shown(value)}; expected it as {FORMS[name]}"
    for workload, speeds in record.figures.items():
        if workload not in EXPECTED:
            yield f"figures.{workload}: found an unknown key; {nearest(workload, EXPECTED)}"
        for name, value in speeds.items():
            if name not in SPEEDS:
                expected = nearest(name, SPEEDS)
                yield f"figures.{workload}.{name}: found an unknown key; {expected}"
            elif value > _FASTEST:
                yield f"figures.{workload}.{name}: found {value}; expected {_FASTEST} at most"
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
    told = ("driver", "kernel", "DGX OS")
    parts = [f"{name} {machine[name]}" for name in told if name in machine]
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
