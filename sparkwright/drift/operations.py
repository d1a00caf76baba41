"""Read what no operation converges, and change nothing."""

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import StringCommand, operation

from sparkwright.common.operations import differs
from sparkwright.doctor.facts import Listeners
from sparkwright.doctor.listeners import astray, others, unguarded
from sparkwright.drift.drift import running_differences
from sparkwright.drift.facts import WhatRuns
from sparkwright.release.guard import ALONE
from sparkwright.run.target import Target


@operation()
def running(own: Target) -> Generator[StringCommand]:
    """Record how what runs, the GPU, packages and the kernel differ from what is declared."""
    known = [each.id for seat in own.seats if (each := seat.release)]
    for seat in own.seats:
        release = seat.release
        found = host.get_fact(WhatRuns, root=seat.place, images=release.images if release else ())
        # What is the Spark's own is compared once.
        limit = own.settings.gpu_clock_max_mhz
        for difference in running_differences(found, release, limit, known, not seat.seat):
            differs(*difference)
    yield from ()


@operation()
def listeners(own: Target, foreign: dict[str, list[str]]) -> Generator[StringCommand]:
    """Record who listens beyond loopback, and should not.

    Args:
        own: the target of the Spark.
        foreign: filled with the listeners that are not ours, by Spark.
    """
    found = host.get_fact(Listeners)
    for socket in astray(found, own.may_listen):
        differs("listeners", "only those on the list", socket)
    for group in unguarded(found):
        differs("guard of the engine", f"its container in {ALONE}", f"in {group}")
    if sockets := others(found, own.may_listen):
        foreign[own.spark] = sockets
    yield from ()
