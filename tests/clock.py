"""How long tests wait before they give up: one factor for slow machines."""

import os

_FACTOR = float(os.environ.get("TIMEOUT_FACTOR", "1"))


def patience(seconds: float = 120) -> float:
    """Return a bound by the clock, as long as this machine needs it.

    Such a bound ends a test that hangs. It proves nothing: what a test is to show by time, it
    compares with another time of the same run.

    Args:
        seconds: the bound on a machine of ordinary speed, many times what the wait takes there.

    Returns:
        The seconds times TIMEOUT_FACTOR of the environment, which is 1 unless set.
    """
    return seconds * _FACTOR
