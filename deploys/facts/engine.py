"""What serves on a Spark, and how a start goes on."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.engine import EngineState, engine_script, parse_engines, state_script


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


@dataclass(frozen=True)
class JournalPart:
    """What a unit has logged since a cursor.

    Attributes:
        starting: systemd has a job for the unit, as long as its start is under way.
    """

    starting: bool
    cursor: str | None
    lines: tuple[str, ...]


class Journal(FactBase[JournalPart]):
    """What a unit logged since `cursor`; without one, since its present start."""

    def command(self, unit: str, cursor: str | None = None) -> str:
        invocation = f"$(systemctl show --value --property=InvocationID {unit})"
        since = f"--after-cursor='{cursor}'" if cursor else f'_SYSTEMD_INVOCATION_ID="{invocation}"'
        return (
            f'echo "job $(systemctl show --value --property=Job {unit})"; '
            f"journalctl --quiet --output=cat --show-cursor --unit={unit} {since} 2>/dev/null; true"
        )

    def process(self, output: Iterable[str]) -> JournalPart:
        job, *lines = (line for line in output if line)
        cursor = None
        if lines and lines[-1].startswith("-- cursor: "):
            cursor = lines.pop().removeprefix("-- cursor: ")
        return JournalPart(bool(job.removeprefix("job").strip()), cursor, tuple(lines))
