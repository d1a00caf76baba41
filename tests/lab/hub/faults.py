"""What the hub does wrong on demand, and the count of what it has sent."""

import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase

# Refused instead of answered; 416 only where a file's content is asked for.
REFUSALS = ("401", "403-gated", "404", "429", "500")
RANGE_REFUSALS = ("416",)
# The answer starts well and then goes wrong; RATES slow it down.
BREAKS = ("reset", "truncate", "flip")
RATES = ("rate",)
NAMES = (*REFUSALS, *RANGE_REFUSALS, *BREAKS, *RATES)


@dataclass
class Fault:
    """One fault that is on; its name is one of NAMES.

    `path` is a glob over `organisation/name/file`, else over the URL's path (`api/whoami-v2`). It
    hits so many `times` (None: for ever), `after` so many bytes of the answer (None: half of it). A
    429 tells the client to wait for `seconds`; `rate` is in bytes per second of each answer.
    """

    name: str
    path: str = "*"
    times: int | None = None
    after: int | None = None
    seconds: int = 1
    rate: int = 1024 * 1024

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"fault: found {self.name!r}; expected one of {', '.join(NAMES)}")


class Faults:
    """The faults that are on now; requests claim them from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.on: list[Fault] = []

    def claim(self, subject: str, names: tuple[str, ...]) -> Fault | None:
        """Return the oldest fault of these names that hits this subject, and count the hit."""
        with self._lock:
            for fault in self.on:
                if fault.name in names and fnmatchcase(subject, fault.path):
                    if fault.times is not None:
                        fault.times -= 1
                        if fault.times == 0:
                            self.on.remove(fault)
                    return fault
        return None


class Traffic:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, dict[str, int]] = {}

    def add(self, subject: str, *, requests: int = 0, sent: int = 0) -> None:
        with self._lock:
            counts = self._files.setdefault(subject, {"requests": 0, "bytes": 0})
            counts["requests"] += requests
            counts["bytes"] += sent

    def listing(self) -> dict[str, dict[str, int]]:
        with self._lock:
            return {subject: dict(counts) for subject, counts in sorted(self._files.items())}
