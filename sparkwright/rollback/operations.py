"""Go back to the release that served before."""

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import Host, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.command_line import next_line
from sparkwright.common.operations import failing, notice, spark_name
from sparkwright.engine.operations.serve import complaint, switch_back
from sparkwright.engine.switch import Outcome, SwitchSettings
from sparkwright.rollback.facts import ReleaseHistory
from sparkwright.rollback.rollback import History, obstacle
from sparkwright.run.report import conclude


@operation()
def way_back(root: str, peer: Host | None) -> Generator[PyinfraCommand]:
    """Fail where there is nothing to go back to, before anything is placed for it.

    Args:
        root, peer: as for `rollback`.
    """
    if why := _look(root, peer)[1]:
        yield failing(why)
    else:
        host.noop("there is one")


@operation()
def rollback(
    root: str, replica: str, recipe: str, settings: SwitchSettings, peer: Host | None
) -> Generator[PyinfraCommand]:
    """Serve the release that served before the present one, with its files on the Spark.

    A switch under way is reverted. Image and weights are checked before anything is changed; if
    the release does not come to serve, the present one goes on.

    Args:
        replica: what the seat serves, for people.
        recipe: what the inventory asks for.
        peer: the other Spark of a pair, on which this operation runs at the same time.
    """
    own, why = _look(root, peer)
    release = own.before
    if why or release is None:
        yield failing(why or "")
        return
    stays = (
        ""
        if release.rpartition("-")[0] == recipe
        else (
            f". The inventory asks for {recipe}, which {next_line('apply')} serves: change "
            "`recipe:` there to stay"
        )
    )
    notice(f"It goes back to {release}{stays}")
    outcome = Outcome()
    yield from switch_back(root, release, settings, peer, outcome)
    if not outcome.served:
        yield failing(complaint(release, outcome))
    else:
        before = f" (before: {own.current})" if own.current else ""
        conclude(replica, f" serves {release} again{before}.")


def _look(root: str, peer: Host | None) -> tuple[History, str | None]:
    """Return what has served, and why there is no way back."""
    own = host.get_fact(ReleaseHistory, root=root)
    peers = peer.get_fact(ReleaseHistory, root=root) if peer else None
    return own, obstacle(spark_name(host), own, spark_name(peer) if peer else "", peers)
