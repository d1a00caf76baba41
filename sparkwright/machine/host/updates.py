"""What an update would make of a Spark's system, and what is known of those versions."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sparkwright.common.errors import Difference
from sparkwright.common.part import Part
from sparkwright.plan.causes.log_causes import known_of


class SystemPackages(Part):
    """The packages of kernel, driver, toolkit and Docker: whether each is held; marks of runs."""

    part: ClassVar = "updates"

    packages: dict[str, bool]
    ours: tuple[str, ...]

    @property
    def held(self) -> set[str]:
        """Those that are held, by whomever."""
        return {name for name, is_held in self.packages.items() if is_held}

    def differing(self, hold: bool) -> set[str]:
        """Return those whose marks are to change: its owner's stay where none is to be held."""
        return self.packages.keys() - self.held if hold else self.held.intersection(self.ours)


class Coming(Part):
    """What comes with an update, or the next boot.

    Attributes:
        newer: kind, package, present and newer version of each in apt's lists, and whether
            unattended-upgrades would take it: it takes none that is held.
        fault: why apt cannot say that; "" if it can.
        now, then: versions by kind that run, and that would after a boot; "" for none.
    """

    part: ClassVar = "updates.coming"
    patience: ClassVar[float] = 60

    newer: tuple[tuple[str, str, str, str, bool], ...]
    fault: str
    now: dict[str, str]
    then: dict[str, str]


def surprises(coming: Coming) -> Iterator[Difference]:
    """Yield what would come unasked: with the next boot, or by unattended-upgrades."""
    for kind, version in coming.then.items():
        if coming.now[kind] not in ("", version):
            after = f"{version or 'none for its kernel'} after the next boot"
            known = _known(kind, coming.now, coming.then)
            yield Difference(kind, f"{coming.now[kind]}, as it runs", f"{after}{known}")
    yield from newer(coming, {row[1] for row in coming.newer if row[4]}, "would come by itself")
    if coming.fault:
        yield Difference("apt", "to say what would come by itself", coming.fault)


def newer(coming: Coming, packages: set[str], how: str) -> Iterator[Difference]:
    """Yield one line for each kind of which these packages are newer in apt's lists."""
    kinds = dict.fromkeys(row[0] for row in coming.newer if row[1] in packages)
    for kind in kinds:
        rows = [row for row in coming.newer if row[0] == kind and row[1] in packages]
        # A kernel with pages of 64 KiB has that in its packages' names alone.
        then = coming.now | {kind: " ".join(f"{row[3]} {row[1]}" for row in rows)}
        _, name, old, new, _ = min(rows, key=lambda row: (len(row[1]), row[1]))
        more = f", and {len(rows) - 1} more" if rows[1:] else ""
        known = _known(kind, coming.now, then)
        yield Difference(f"{kind} ({name}{more})", old, f"{new} {how}{known}")


def _known(kind: str, now: Mapping[str, str], then: Mapping[str, str]) -> str:
    """Return what is known of new versions and not of the present ones, as the end of a line."""
    known = [each for each in known_of(then) if kind in each.versions and each not in known_of(now)]
    return "".join(f". Known of it: {each.cause} [{each.name}]" for each in known)
