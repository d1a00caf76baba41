"""What a Spark is, read by one program in one command: files/host/state.

A run says beforehand what its steps will read (`expect`), so that the first of them reads it all.
An answer serves as long as nothing has changed: the first other command on a Spark of the replica
ends that, and so does a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from pyinfra.api import Host

from sparkwright.common.part import Ask, Part
from sparkwright.run.answers import RUN as RUN
from sparkwright.run.answers import answers
from sparkwright.run.connection import connection_of

P = TypeVar("P", bound=Part)


def expect(spark: Host, asks: Callable[[], Iterable[Ask[Any]]]) -> None:
    """Have the first reading of a Spark, in a plan and in a run, read this as well."""
    connection_of(spark).expected.append(asks)


def read(spark: Host, ask: Ask[P]) -> P:
    """Return a part of a Spark, read since the last change of its replica.

    Raises:
        PyinfraError: It could not be read; the Spark has failed.
    """
    connection = connection_of(spark)
    with connection.reading:
        if line := connection.known(ask.key):
            with suppress(ValueError):
                return ask.value(line)
        others = {each.key: each for each in connection.take_expected() if each.key != ask.key}
        return _read(spark, ask, *others.values())


def read_now(spark: Host, ask: Ask[P]) -> P:
    """Return a part of a Spark that may be another in a moment, such as the progress of a job.

    Raises:
        PyinfraError: It could not be read; the Spark has failed.
    """
    with connection_of(spark).reading:
        return _read(spark, ask)


def _read(spark: Host, ask: Ask[P], *others: Ask[Any]) -> P:
    asks = [ask, *others]
    connection = connection_of(spark)
    changes = connection.changes
    lines = answers(spark, *asks)
    if changes == connection.changes:
        connection.remember({each.key: line for each, line in zip(asks, lines, strict=True)})
    return ask.value(lines[0])
