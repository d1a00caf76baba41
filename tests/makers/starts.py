"""Starts of engines, as a Spark tells of them."""

from sparkwright.common.startup import Start
from tests.makers.status import RELEASE


def start(seconds: float = 60, kind: str = "warm", failed: str = "", **phases: float) -> Start:
    return Start(at=1, release=RELEASE, kind=kind, seconds=seconds, phases=phases, failed=failed)
