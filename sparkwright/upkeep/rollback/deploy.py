"""A rollback: the previous release serves again, or another one that is on the Spark."""

from collections.abc import Generator, Mapping, Sequence
from typing import ClassVar

from pyinfra import host
from pyinfra.api import Host, deploy, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.command_line import next_line
from sparkwright.common.operations import failing, notice, spark_name
from sparkwright.common.part import Part
from sparkwright.engine.deploy import laid_down
from sparkwright.engine.operations import serve_again
from sparkwright.run.session import start_session
from sparkwright.run.state import read_now
from sparkwright.run.target import Target, seats


class History(Part):
    """The releases that have served on a Spark.

    Attributes:
        served: the releases in the order in which they came to serve; some more than once.
        current: the one that should serve now; None without one.
        installed: those whose files are there, and for how many Sparks, 0 if that is unknown.
        under_way: those to which a switch is under way.
    """

    part: ClassVar = "engines.history"

    served: tuple[str, ...]
    current: str | None
    installed: dict[str, int]
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


@deploy("Rollback")
def apply() -> None:
    """Serve the release before the present one; an idle Spark stays idle."""
    own, *others = seats()
    if not own.recipe_name:
        return
    if others:
        names = [str(each.replica) for each in (own, *others)]
        raise PyinfraError(
            f"{own.spark} serves {' and '.join(names)}: found no replica to roll back; expected "
            f"one of them: --limit {names[0]}, or --limit {names[1]}. Nothing was changed."
        )
    way_back(name="A way back", root=own.place, peers=own.peers)
    laid_down(name="Programs of the switch")
    rollback(name="Serve the release before", own=own)


@deploy("Rollback")
def to(release: str) -> None:
    """Serve a release that the chosen replica has served, for a rollout that goes back."""
    start_session(lease=True)
    for own in seats():
        rollback(name="Serve a release again", own=own, release=release)


@operation()
def way_back(root: str, peers: Sequence[Host]) -> Generator[PyinfraCommand]:
    """Fail where there is nothing to go back to, before anything is placed for it."""
    own = read_now(host, History.ask(root=root))
    others = {spark_name(each): read_now(each, History.ask(root=root)) for each in peers}
    if why := obstacle(spark_name(host), own, others):
        yield failing(why)
    else:
        host.noop("there is one")


def obstacle(spark: str, own: History, others: Mapping[str, History] | None = None) -> str | None:
    """Return why there is no way back, as sentences; None if there is one.

    Args:
        others: The histories of the group's other Sparks, by their names.
    """
    release = own.before
    if release is None:
        served = f": only {own.current} has served" if own.current else ""
        return f"There is nothing to go back to on {spark}{served}."
    for name, other in (others or {}).items():
        if other.before != release:
            return (
                f"{spark} would go back to {release}, {name} to {other.before or 'nothing'}: a "
                f"group serves one release. Name the recipe in the inventory: {next_line('apply')}"
            )
    if release not in own.installed:
        return (
            f"{release} is no longer on {spark}: {next_line('clean')} keeps `keep_releases` of "
            f"them. Set its recipe in the inventory: {next_line('apply')}"
        )
    sparks = 1 + len(others or ())
    if own.installed[release] not in (0, sparks):
        return (
            f"{release} is for {own.installed[release]} Sparks, and {sparks} serve now: name those "
            f"that are to serve it in the inventory: {next_line('apply')}"
        )
    return None


@operation()
def rollback(own: Target, release: str | None = None) -> Generator[PyinfraCommand]:
    """Serve a release with its files on the Spark: by default the one before the present one.

    A switch under way is reverted. Image and weights are checked before anything is changed; if
    the release does not come to serve, the present one goes on.
    """
    history = read_now(host, History.ask(root=own.place))
    before = release or history.before
    if before is None:
        yield failing(f"There is nothing to go back to on {own.spark}.")
        return
    stays = ""
    if before.rpartition("-")[0] != own.recipe_name:
        stays = f". The inventory asks for {own.recipe_name}, which {next_line('apply')} serves: "
        stays += "change `recipe:` there to stay"
    notice(f"It goes back to {before}{stays}")
    yield from serve_again(own, before, history.current)
