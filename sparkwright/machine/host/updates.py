"""The system's packages: their marks, what an update would bring, and what is known of that."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from pydantic import Field

from sparkwright.common.errors import Difference
from sparkwright.common.part import Part
from sparkwright.plan.causes.log_causes import known_of


class System(Part):
    """The packages of kernel, driver, container toolkit and Docker.

    Attributes:
        packages: whether each is held; `ours` were marked by runs.
        newer: kind, package, present and newer version of each in apt's lists, and whether
            unattended-upgrades would take it.
        fault: why apt cannot say that; "" if it can.
        now, then: versions by kind that run, and that would after a boot; "" for none.
    """

    part: ClassVar = "updates"
    patience: ClassVar[float] = 60

    packages: dict[str, bool]
    ours: tuple[str, ...]
    newer: tuple[tuple[str, str, str, str, bool], ...] = ()
    fault: str = ""
    now: dict[str, str] = Field(default_factory=dict)
    then: dict[str, str] = Field(default_factory=dict)

    def differing(self, hold: bool) -> list[str]:
        """Return those whose marks are to change: its owner's stay where none is to be held."""
        marks = self.packages.items()
        return sorted(name for name, held in marks if held != hold and (hold or name in self.ours))

    @property
    def old(self) -> dict[str, str]:
        """The newer versions of packages that runs hold."""
        return {row[1]: row[3] for row in self.newer if row[1] in self.differing(hold=False)}

    def surprises(self) -> Iterator[Difference]:
        """Yield what would come unasked: with the next boot, or by unattended-upgrades."""
        for kind, version in self.then.items():
            if (now := self.now.get(kind, "")) not in ("", version):
                after = f"{version or 'none for that kernel'} after the next boot"
                known = self._known(kind, self.then)
                yield Difference(kind, f"{now}, as it runs", f"{after}{known}")
        yield from self.coming([row[1] for row in self.newer if row[4]], "would come by itself")
        if self.fault:
            yield Difference("apt", "to say what would come by itself", self.fault)

    def coming(self, packages: Collection[str], how: str) -> Iterator[Difference]:
        """Yield one line for each kind of which these packages are newer in apt's lists."""
        rows = [row for row in self.newer if row[1] in packages]
        for kind in dict.fromkeys(row[0] for row in rows):
            own = sorted((row[1:] for row in rows if row[0] == kind), key=lambda row: len(row[0]))
            (name, old, new, _), more = own[0], f", and {len(own) - 1} more" if own[1:] else ""
            # Only its packages' names tell a kernel with pages of 64 KiB.
            then = {**self.now, kind: " ".join(f"{new} {name}" for name, _, new, _ in own)}
            known = self._known(kind, then)
            yield Difference(f"{kind} ({name}{more})", old, f"{new} {how}{known}")

    def _known(self, kind: str, then: Mapping[str, str]) -> str:
        """Return what is known of new versions and not of the present ones, to end a line."""
        old, new = known_of(self.now), [each for each in known_of(then) if kind in each.versions]
        return "".join(f". Known: {each.cause} [{each.name}]" for each in new if each not in old)


class Standing(NamedTuple):
    """A Spark of a replica: it has older packages, or is to boot for new ones; it serves."""

    replica: str
    old: bool
    due: bool
    serves: bool


def turn(sparks: Sequence[Standing]) -> tuple[str, str]:
    """Return the replica that is to be upgraded, "" for none; and what comes first, if anything."""
    waiting = [each.replica for each in sparks if each.old]
    for each in sparks if waiting else ():
        if each.replica not in waiting and each.due:
            return "", f"{each.replica} has new packages, and runs the old ones: reboot it first."
        if each.replica not in waiting and not each.serves:
            return "", f"{each.replica} has no old packages, and does not serve: see to it first."
    return next(iter(waiting), ""), ""
