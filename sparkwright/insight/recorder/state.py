"""The last hard end of a Spark, as its flight recorder judged it."""

from collections.abc import Iterator
from datetime import UTC

from sparkwright.common.part import Bounded
from sparkwright.common.progress import time_text

# A cause that the recorder names -> the doctor's name for it.
CAUSES = {name: f"down-{name}" for name in ("power", "memory", "heat", "driver", "lock-up", "disk")}
# The columns of a line after its time, as files/host/insight/recorder/ring.py has them.
_COLUMNS = "up W °C MHz MiB mem% io% cpu% swap disk steps"


class HardDown(Bounded):
    """When a Spark went down and came back, in seconds since the epoch, and why.

    Attributes:
        cause: "unknown" where the lines do not tell.
        why: what shows the cause.
        lines: its last ten seconds.
    """

    at: float
    back: float
    cause: str
    why: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        at, back = (time_text(each, "%d %b %H:%M", UTC) for each in (self.at, self.back))
        back = back.removeprefix(at[:7])
        cause = self.cause if self.cause in CAUSES else "cause not known"
        return f"it went down hard at {at} ({cause}) and was back at {back} UTC"

    @property
    def seconds(self) -> Iterator[str]:
        """Yield its last lines, for a person."""
        yield f"UTC      {_COLUMNS}"
        for line in self.lines:
            time, _, rest = line.partition(" ")
            yield f"{time_text(float(time), '%H:%M:%S', UTC) if time.isdecimal() else time} {rest}"
