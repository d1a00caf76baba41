"""The releases that have served on a Spark, and the one to go back to."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from sparkwright.common.command_line import next_line
from sparkwright.common.facts import HostFact
from sparkwright.common.host_output import MARK, sections
from sparkwright.engine.engine import own_releases, seats_script


@dataclass(frozen=True)
class History:
    """The releases that have served on a Spark.

    Attributes:
        served: the releases in the order in which they came to serve; some more than once.
        current: the one that should serve now; None without one.
        installed: those whose files are there.
        under_way: those to which a switch is under way.
    """

    served: tuple[str, ...]
    current: str | None
    installed: frozenset[str]
    under_way: tuple[str, ...]

    @property
    def before(self) -> str | None:
        """The release to go back to: the last other one, or what a switch under way would replace.

        So a second rollback undoes the first.
        """
        if self.under_way:
            return self.current
        others = [release for release in self.served if release != self.current]
        return others[-1] if others else None


def parse_history(output: Iterable[str]) -> History:
    """Return the history that the output of `ReleaseHistory` describes.

    Raises:
        ValueError, KeyError: a section is missing.
    """
    found = sections(output)
    parts = {name: [line for line in lines if line] for name, lines in found.items()}
    link, is_own = parts["current"], own_releases(found)
    switches = (unit.removeprefix("switch@").removesuffix(".service") for unit in parts["switches"])
    return History(
        served=tuple(parts["history"]),
        current=link[0].rsplit("/", 1)[-1] if link else None,
        installed=frozenset(parts["releases"]),
        under_way=tuple(filter(is_own, switches)),
    )


class ReleaseHistory(HostFact[History]):
    """The releases that have served, those that are installed, and switches under way."""

    momentary = True

    def command(self, root: str) -> str:
        return f"""
{seats_script(root)}
cd {shlex.quote(root)} 2>/dev/null || cd /
echo {MARK}history; cut -d' ' -f2 state/history 2>/dev/null
echo {MARK}current; readlink current
echo {MARK}releases; ls releases 2>/dev/null
echo {MARK}switches
systemctl list-units --plain --no-legend --state=active,activating 'switch@*' | cut -d' ' -f1
true"""

    parse = staticmethod(parse_history)


def obstacle(spark: str, own: History, peer: str = "", peers: History | None = None) -> str | None:
    """Return why there is no way back, as sentences; None if there is one."""
    release = own.before
    if release is None:
        served = f": only {own.current} has served" if own.current else ""
        return f"There is nothing to go back to on {spark}{served}."
    if peers and peers.before != release:
        return (
            f"{spark} would go back to {release}, {peer} to {peers.before or 'nothing'}: a pair "
            f"serves one release. Name the recipe in the inventory: {next_line('apply')}"
        )
    if release not in own.installed:
        return (
            f"{release} is no longer on {spark}: {next_line('clean')} keeps `keep_releases` of "
            f"them. Set its recipe in the inventory: {next_line('apply')}"
        )
    return None
