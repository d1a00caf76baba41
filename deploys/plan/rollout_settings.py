"""The settings of a rollout."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from deploys.plan.errors import PlanError
from deploys.plan.schema import nearest

# Seconds that a wave must hold before the next one begins, beside the trial of each switch: long
# enough for requests that a few minutes bring and a trial does not, such as a long prompt.
SOAK_SECONDS = 300


@dataclass(frozen=True)
class Settings:
    """The settings of a rollout, as a person gives them.

    Attributes:
        soak: seconds that each wave must hold.
        minimum_speed: tokens a second that one stream must show; None for no bound.
        forced: replicas that may leave their clients with nothing for a while.
    """

    soak: float
    minimum_speed: float | None
    forced: frozenset[str]


def settings(data: Mapping[str, Any], replicas: Collection[str]) -> Settings:
    """Return what `--data` asks of a rollout.

    Args:
        data: inventory and group data, with what the command line says.
        replicas: the names that there are.

    Raises:
        PlanError: all values that cannot be.
    """
    soak, speed = data.get("soak", SOAK_SECONDS), data.get("minimum_speed")
    forced = [name for name in str(data.get("force", "")).split(",") if name]
    problems = [
        f"--data force: found {name}; expected {nearest(name, replicas)}"
        for name in forced
        if name not in replicas
    ]
    if not _is_number(soak) or soak < 0:
        problems.append(f"--data soak: found {soak}; expected seconds, such as {SOAK_SECONDS}")
    if speed is not None and not (_is_number(speed) and speed > 0):
        problems.append(
            f"--data minimum_speed: found {speed}; expected tokens a second, such as 40"
        )
    if problems:
        raise PlanError(*problems)
    return Settings(soak, speed, frozenset(forced))


def _is_number(value: object) -> bool:
    # The command line makes a number of NaN, too, with which a wave would not soak at all.
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
