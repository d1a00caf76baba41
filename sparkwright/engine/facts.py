"""The engine of a Spark: what serves, the course of a start, and the memory that is left."""

import re
import shlex
from dataclasses import dataclass

from sparkwright.common.facts import HostFact
from sparkwright.common.host_output import read_json
from sparkwright.common.terminal import LINE
from sparkwright.engine.engine import EngineState, engine_script, parse_engines, state_script
from sparkwright.engine.switch import MEMORY_SCRIPT, MemoryState, SwitchReport, parse_memory

# What journalctl --show-cursor prints last.
_CURSOR = re.compile(r"-- cursor: ([A-Za-z0-9_=;]{1,500})")


class Engines(HostFact[EngineState]):
    """All engines of a Spark in one command, and what the one at `url` answers."""

    def command(self, root: str, release: str = "", url: str = "", model: str = "") -> str:
        if not url:
            return state_script(root, release)
        return engine_script(root=root, release=release, url=url, model=model)

    parse = staticmethod(parse_engines)


class FreeMemory(HostFact[MemoryState]):
    """A Spark's memory as it is now."""

    def command(self) -> str:
        return MEMORY_SCRIPT

    parse = staticmethod(parse_memory)


class EngineSize(HostFact[int | None]):
    """Bytes of an engine, as the orders of a switch have them; None where they do not tell."""

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
        report: what its program wrote last; None before the first word.
        cursor: where the journal was read to.
        lines: what the new engine has logged since.
    """

    ended: bool
    report: SwitchReport | None
    cursor: str | None
    lines: tuple[str, ...]


class Switching(HostFact[SwitchState]):
    """The course of a switch.

    Args:
        root: the folder of everything on the Spark.
        release: the one that is to serve.
        since: where to read its journal from: "@" and seconds since the epoch, or nothing yet.
        cursor: where to read on.
    """

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
        # The engine writes what it likes, also a line that looks like journalctl's own.
        if lines and (last := _CURSOR.fullmatch(lines[-1])):
            cursor = last[1]
            lines.pop()
        told = SwitchReport.model_validate_json(report) if report else None
        return SwitchState(active in ("inactive", "failed"), told, cursor, tuple(lines))
