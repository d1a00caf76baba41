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
    """One fault that is on.

    Attributes:
        name: one of NAMES.
        path: a glob over `organisation/name/file` for files, over the URL's path without the first
            slash (`api/whoami-v2`) for the rest; `*` matches slashes too.
        times: how many requests it still hits; None: every one until it is cleared.
        after: bytes of the answer before it is reset, cut off, or gets its flipped byte;
            None: half of the answer.
        seconds: what a 429 tells the client to wait.
        rate: bytes per second of each answer.
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
    """Requests for each file's content, and the bytes sent for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, dict[str, int]] = {}

    def add(self, subject: str, *, requests: int = 0, sent: int = 0) -> None:
        """Count for a file, `organisation/name/path`."""
        with self._lock:
            counts = self._files.setdefault(subject, {"requests": 0, "bytes": 0})
            counts["requests"] += requests
            counts["bytes"] += sent

    def listing(self) -> dict[str, dict[str, int]]:
        """Return {file: {"requests": n, "bytes": n}}."""
        with self._lock:
            return {subject: dict(counts) for subject, counts in sorted(self._files.items())}
