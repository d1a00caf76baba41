"""The corpus: public incidents and healthy logs, in parts that a seed drew; four times so far."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
# The one that entries are written with, and the one that is only scored.
WORKING, SCORED = "working", "scored"
# Those collected later, each time that the doctor knew the former ones; drawn alike.
FRESH_WORKING, FRESH_SCORED = "fresh_working", "fresh_scored"
THIRD_WORKING, THIRD_SCORED = "third_working", "third_scored"
# Collected last, of Sparks above all, and only scored.
LAST_SCORED = "last_scored"
PARTS = WORKING, SCORED, FRESH_WORKING, FRESH_SCORED, THIRD_WORKING, THIRD_SCORED, LAST_SCORED


@dataclass(frozen=True)
class Incident:
    """What somebody reported in public.

    Attributes:
        name: ours.
        thread: OWNER/REPOSITORY#NUMBER, a file of a repository, or the address of a page.
        cause: what the thread found, by the name of the doctor's entry, or by a name that no entry
            has; None of a healthy log.
        also: names of entries that say the same of it.
        log, kernel: lines of the engine's journal, and of the kernel's log.
        readings: of the host, see `score.checkup`.
    """

    name: str
    thread: str
    cause: str | None
    also: tuple[str, ...]
    log: tuple[str, ...]
    kernel: tuple[str, ...]
    readings: Mapping[str, Any]

    @property
    def part(self) -> str:
        """WORKING or SCORED, as the seed draws: all of one thread are together."""
        thread = re.sub(r" \(.*\)$", "", self.thread)
        drawn = hashlib.sha256(f"sparkwright {thread}".encode()).digest()[0]
        return WORKING if drawn < 128 else SCORED


def load(part: str) -> list[Incident]:
    """Return the incidents and healthy logs of one of PARTS."""
    found = yaml.safe_load((HERE / f"{part}.yaml").read_text())
    return [_incident(**entry) for entry in found["incidents"] + found["healthy"]]


def _incident(id: str, thread: str = "", file: str = "", **entry: Any) -> Incident:
    # The first line of a file says where it is from.
    log = (PROJECT / file).read_text().splitlines()[1:] if file else entry.get("log", ())
    return Incident(
        name=id,
        thread=thread or file,
        cause=entry.get("cause"),
        also=tuple(entry.get("also", ())),
        log=tuple(log),
        kernel=tuple(entry.get("dmesg", ())),
        readings=entry.get("readings", {}),
    )
