"""The options that `--data` gives one run, beside the settings of group_data/all.py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError, problems_of
from sparkwright.common.local_file import why_unwritable
from sparkwright.common.schema import Model, Name, as_python, nearest, parse
from sparkwright.declared.recipe.workloads import WORKLOADS

_WEIGHTS = f"verify, or remove with {next_line('remove')}"


def _words(value: object) -> object:
    """Split text at commas, without repetitions; pyinfra reads a name of digits as a number."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return value
    return tuple(dict.fromkeys(word.strip() for word in str(value).split(",")))


def _workload(name: str) -> str:
    if name not in WORKLOADS:
        raise ValueError(nearest(name, WORKLOADS))
    return name


def _path(value: object) -> object:
    if value is not None and (not isinstance(value, str) or not value or value.endswith("/")):
        raise ValueError("the path of a file, or - for standard output")
    if value not in (None, "-") and (reason := why_unwritable(Path(value))):
        raise ValueError(f"the path of a file that can be written: {reason}")
    return value


class RunOptions(Model):
    """What the command line asks of one run.

    Attributes:
        docker: "restart": containers may end for a setting that takes Docker's start.
        fabric: "verify": measure the bandwidth of each link.
        weights: "verify": hash every file anew; "remove": `remove` takes them as well.
        json_target: Where JSON goes: a path, or "-".
        report: Where the doctor's report for an issue goes: a path, or "-".
        watch: Seconds between two refreshes; None for one look.
        workloads: Names of what the benchmark measures; None for all.
        without: Sparks that are left out of their groups, which serve on the others.
    """

    docker: Literal["restart"] | None = Field(None, description="restart, or no --data docker")
    fabric: Literal["verify"] | None = Field(None, description="verify, or no --data fabric")
    weights: Literal["verify", "remove"] | None = Field(None, description=_WEIGHTS)
    json_target: Annotated[str | None, BeforeValidator(_path)] = Field(None, alias="json")
    report: Annotated[str | None, BeforeValidator(_path)] = None
    # An engine's counters move with each step; a table cannot be read faster.
    watch: Annotated[int, Field(ge=1, le=3600)] | None = Field(
        None, description="seconds from 1 to 3600"
    )
    workloads: Annotated[
        tuple[Annotated[str, AfterValidator(_workload)], ...] | None, BeforeValidator(_words)
    ] = Field(None, description="names with commas between them, such as short,code")
    without: Annotated[tuple[Name, ...], BeforeValidator(_words)] = Field(
        (), description="names of Sparks with commas between them, such as spark-c"
    )


OPTIONS = tuple(field.alias or name for name, field in RunOptions.model_fields.items())


def options_of(data: Mapping[str, object]) -> RunOptions:
    """Return the options among the data of a host; a PlanError has a problem for each slip."""
    values = {name: data[name] for name in OPTIONS if name in data}
    try:
        return parse(RunOptions, values, "--data", as_python)
    except PlanError as error:
        # The index of a word means nothing to someone who typed a list with commas.
        problems = (re.sub(r"\[\d+\]:", ":", each, count=1) for each in error.problems)
        raise PlanError(*problems) from None


def slips(given: Mapping[str, object], *, removal: bool) -> Iterator[str]:
    """Yield the problems of `--data` values, before any connection."""
    for name, value in given.items():
        yield from (problems := problems_of(options_of, {name: value}))
        if name == "weights" and not problems and removal != (value == "remove"):
            yield f"--data weights: found {value!r}; expected {_WEIGHTS}"
