"""The lines of a log that count: those of the engine itself that still hold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

# Lines that hold what a client or the model wrote, and those of an access log.
_QUOTING = re.compile(
    r"Dumping |Received request \S+: |Request \S+ details: |Generated (streaming )?response|"
    r'"(GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH) [^"]*" \d{3}\b'
)
# What a client or the model wrote, within a line: its key, then a string in quotes.
_QUOTED = re.compile(
    r"""\b(prompt|content|text|output|arguments|input(_value)?)\b["']?\s*[:=]\s*"""
    r"""('(\\.|[^'\\])+('|$)|"(\\.|[^"\\])+("|$))"""
)
# Lines that are no more than a warning: vLLM's, and those of PyTorch, Python and Docker.
_MILD = re.compile(
    r"\b(INFO|WARNING|DEBUG) \d\d-\d\d |(^|\] |\]:)\[?[WI]\d{3,4} |\w+Warning: |"
    r"^(INFO|WARNING|DEBUG)\b|(^|:\d+: )Warning:|Will ignore error"
)
# Colors of a terminal.
_COLORS = re.compile(r"\x1b\[[\d;]*m")
# A start of an engine begins; it serves; it has answered a request.
_BEGINS = re.compile(r"Starting (\S+\.service - )?vLLM release |^starting the engine$")
_SERVES = re.compile(r"Application startup complete|^serving$")
_ANSWERS = re.compile(r'"POST /(v1/[\w/]+|pooling|rerank|score|invocations) HTTP/[\d.]+" 200\b')
# An engine is dead, though its unit has yet to notice.
_DEAD = re.compile(r"EngineDeadError|EngineCore (encountered an issue|failed)|^engine ended: ")


class _JournalLine(NamedTuple):
    text: str
    mild: bool
    # Its engine had begun to serve.
    served: bool


@dataclass(frozen=True)
class Journal:
    """The log of an engine, with the kernel's beside it.

    Attributes:
        log: its lines.
        active: the engine runs, and has done so since its first start.
    """

    log: Sequence[str]
    active: bool = False

    def lines(self, *, mild: bool, past: bool = False, served: bool = True) -> list[str]:
        """Return the lines that count, without what they quote.

        Args:
            mild: with those that are no more than a warning.
            past: with those that were logged before the engine served, though it came to serve.
            served: with those that were logged after it had begun to serve.
        """
        everything, present = self._spoken
        return [
            line.text
            for line in (everything if past else present)
            if (mild or not line.mild) and (served or not line.served)
        ]

    @cached_property
    def serves(self) -> bool:
        """True where the engine serves: nothing that it has met has stopped it."""
        return self.active and not any(_DEAD.search(line.text) for line in self._spoken[1])

    @cached_property
    def _spoken(self) -> tuple[list[_JournalLine], list[_JournalLine]]:
        """All lines, and those after each start's last sign of service."""
        everything: list[_JournalLine] = []
        present: list[_JournalLine] = []
        begun, served = 0, False
        for text in (_COLORS.sub("", line) for line in self.log):
            if _BEGINS.search(text):
                begun, served = len(present), False
            if _SERVES.search(text) or (self.active and _ANSWERS.search(text)):
                del present[begun:]
                served = True
            if not _QUOTING.search(text):
                line = _JournalLine(_QUOTED.sub(r"\1: …", text), bool(_MILD.search(text)), served)
                everything.append(line)
                present.append(line)
        return everything, present
