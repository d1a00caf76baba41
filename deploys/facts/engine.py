"""What serves on a Spark, how a start goes on, and what memory is left."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.engine import EngineState, engine_script, parse_engines, state_script
from deploys.plan.switch import MEMORY_SCRIPT, Memory, parse_memory


class Engines(FactBase[EngineState]):
    """All engines of a Spark in one command, and what the one at `url` answers."""

    def command(self, root: str, release: str = "", url: str = "", model: str = "") -> str:
        if not url:
            return state_script(root, release)
        return engine_script(root=root, release=release, url=url, model=model)

    def process(self, output: Iterable[str]) -> EngineState:
        try:
            return parse_engines(output)
        except (KeyError, ValueError) as error:
            raise FactProcessError(f"the state of the engines is unreadable: {error!r}") from error


class FreeMemory(FactBase[Memory]):
    """A Spark's memory as it is now."""

    def command(self) -> str:
        return MEMORY_SCRIPT

    def process(self, output: Iterable[str]) -> Memory:
        try:
            return parse_memory(output)
        except (KeyError, ValueError) as error:
            raise FactProcessError(f"the memory is unreadable: {error!r}") from error


class Orders(FactBase[dict[str, Any]]):
    """What a file of orders says; nothing where there is none."""

    default = dict

    def command(self, path: str) -> str:
        return f"cat {shlex.quote(path)} 2>/dev/null; true"

    def process(self, output: Iterable[str]) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads("\n".join(output) or "{}")
        except ValueError:
            return {}
        return found


@dataclass(frozen=True)
class SwitchState:
    """A switch under way, or the last one.

    Attributes:
        ended: its unit does not run.
        report: what its program wrote last; empty before the first word.
        cursor: where the journal was read to.
        lines: what the new engine has logged since.
    """

    ended: bool
    report: dict[str, Any]
    cursor: str | None
    lines: tuple[str, ...]


class Switching(FactBase[SwitchState]):
    """How a switch goes on.

    Args:
        root: the folder of everything on the Spark.
        release: the one that is to serve.
        since: where to read its journal from: "@" and seconds since the epoch, or nothing yet.
        cursor: where to read on.
    """

    def command(self, root: str, release: str, since: str = "", cursor: str | None = None) -> str:
        start = f"--after-cursor='{cursor}'" if cursor else f"--since='{since}'"
        journal = (
            f"journalctl --quiet --output=cat --show-cursor --unit=vllm@{release}.service {start}"
        )
        report = shlex.quote(f"{root}/jobs/switch@{release}.json")
        return (
            f"systemctl show --value --property=ActiveState switch@{release}.service; "
            f"cat {report} 2>/dev/null || echo; "
            f"{f'{journal} 2>/dev/null; ' if since else ''}true"
        )

    def process(self, output: Iterable[str]) -> SwitchState:
        active, report, *rest = output
        lines = [line for line in rest if line]
        cursor = None
        if lines and lines[-1].startswith("-- cursor: "):
            cursor = lines.pop().removeprefix("-- cursor: ")
        try:
            told = json.loads(report or "{}")
        except ValueError as error:
            raise FactProcessError(f"the switch's report is unreadable: {report!r}") from error
        return SwitchState(active in ("inactive", "failed"), told, cursor, tuple(lines))
