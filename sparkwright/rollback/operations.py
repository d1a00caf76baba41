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
from sparkwright.rollback.rollback import obstacle


@operation()
def rollback(
    root: str, recipe: str, settings: SwitchSettings, peer: Host | None
) -> Generator[PyinfraCommand]:
    """Serve the release that served before the present one, with its files on the Spark.

    A switch under way is reverted. Image and weights are checked before anything is changed; if
    the release does not come to serve, the present one goes on.

    Args:
        root: the folder of the seat.
        recipe: what the inventory asks for.
        settings: of the switch.
        peer: the other Spark of a pair, on which this operation runs at the same time.
    """
    own = host.get_fact(ReleaseHistory, root=root)
    peers = peer.get_fact(ReleaseHistory, root=root) if peer else None
    why = obstacle(spark_name(host), own, spark_name(peer) if peer else "", peers)
    release = own.before
    if why or release is None:
        yield failing(why or "")
        return
    notice(
        f"It goes back to {release}. The inventory still asks for {recipe}, which "
        f"{next_line('apply')} serves: change `recipe:` there to stay"
    )
    outcome = Outcome()
    yield from switch_back(root, release, settings, peer, outcome)
    if not outcome.served:
        yield failing(complaint(release, outcome))
