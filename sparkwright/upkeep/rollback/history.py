"""The releases that have served on a Spark, and the one to go back to."""

from typing import ClassVar

from sparkwright.common.command_line import next_line
from sparkwright.common.part import Part


class History(Part):
    """The releases that have served on a Spark.

    Attributes:
        served: the releases in the order in which they came to serve; some more than once.
        current: the one that should serve now; None without one.
        installed: those whose files are there.
        under_way: those to which a switch is under way.
    """

    part: ClassVar = "engines.history"

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
