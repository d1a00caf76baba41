"""The facts of engines: their state, the course of a switch, and the free memory."""

import re
import shlex
from dataclasses import dataclass

from sparkwright.common.facts import HostFact
from sparkwright.common.host_output import read_json
from sparkwright.common.schema import NAME
from sparkwright.common.terminal import LINE
from sparkwright.declared.recipe.recipe import Answers
from sparkwright.engine.engine import EngineState, engine_script, parse_engines, state_script
from sparkwright.engine.switch import MEMORY_SCRIPT, MemoryState, SwitchReport, parse_memory

# The last line of journalctl --show-cursor.
_CURSOR = re.compile(r"-- cursor: ([A-Za-z0-9_=;]{1,500})")


class Engines(HostFact[EngineState]):
    """All engines of a Spark in one command, and the answers of `release` if there is a `model`."""

    momentary = True

    def command(
        self, root: str, release: str = "", model: str = "", answers: Answers = "chat"
    ) -> str:
        if not model:
            return state_script(root, release)
        return engine_script(root=root, release=release, model=model, answers=answers)

    parse = staticmethod(parse_engines)


class Seats(HostFact[list[str]]):
    """The names of a Spark's second seats."""

    def command(self, root: str) -> str:
        return f"ls {shlex.quote(root)}/seats 2>/dev/null; echo read/"

    def parse(self, output: list[str]) -> list[str]:
        return [name for name in output if NAME.fullmatch(name)]


class FreeMemory(HostFact[MemoryState]):
    """A Spark's memory as it is now."""

    momentary = True

    def command(self) -> str:
        return MEMORY_SCRIPT

    parse = staticmethod(parse_memory)


class EngineSize(HostFact[int | None]):
    """Bytes of an engine by the orders of its switch; None if they do not contain it."""

    momentary = True

    def command(self, path: str) -> str:
        return f"cat {shlex.quote(path)} 2>/dev/null; true"

    def parse(self, output: list[str]) -> int | None:
        try:
            size = read_json("\n".join(output))["engine"]
        except (ValueError, KeyError, TypeError):
            return None
        return size if isinstance(size, int) and size > 0 else None


@dataclass(frozen=True)
class SwitchState:
    """A switch under way, or the last one.

    Attributes:
        ended: its unit does not run.
        report: its program's last report; None before the first one.
        cursor: up to which the journal was read.
        lines: the new lines of the candidate's log.
    """

    ended: bool
    report: SwitchReport | None
    cursor: str | None
    lines: tuple[str, ...]


class Switching(HostFact[SwitchState]):
    """The course of the switch to a release.

    Args:
        since: start of its journal, "@" and seconds since the epoch; "" to read none.
        cursor: the place in the journal after which to read on.
    """

    momentary = True

    def command(self, root: str, release: str, since: str = "", cursor: str | None = None) -> str:
        start = f"--after-cursor={cursor}" if cursor else f"--since={since}"
        journal = (
            "journalctl --quiet --output=cat --show-cursor "
            f"{shlex.join([f'--unit=vllm@{release}.service', start])}"
        )
        report = shlex.quote(f"{root}/jobs/switch@{release}.json")
        return (
            "systemctl show --value --property=ActiveState "
            f"{shlex.quote(f'switch@{release}.service')}; "
            f"cat {report} 2>/dev/null || echo; "
            f"{f'{journal} 2>/dev/null; ' if since else ''}true"
        )

    def parse(self, output: list[str]) -> SwitchState:
        active, report, *rest = output
        lines = [line[:LINE] for line in rest if line]
        cursor = None
        # The cursor is checked, as an engine may write a line that looks like one.
        if lines and (last := _CURSOR.fullmatch(lines[-1])):
            cursor = last[1]
            lines.pop()
        parsed = SwitchReport.model_validate_json(report) if report else None
        return SwitchState(active in ("inactive", "failed"), parsed, cursor, tuple(lines))
