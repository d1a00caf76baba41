"""Stop what serves for a while, and start it again."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.command_line import next_line
from sparkwright.common.operations import failing, notice, spark_name
from sparkwright.engine.facts import Engines
from sparkwright.engine.operations.serve import complaint, switch_back
from sparkwright.engine.switch import Outcome, SwitchSettings
from sparkwright.run.report import conclude


@operation()
def stopped(root: str, replica: str) -> Generator[PyinfraCommand, None, None]:
    """Stop the engine until it is started, a run serves it again, or the Spark boots.

    Requests in flight have the time to end that their recipe gives them; a switch under way is
    reverted first.
    """
    engines = host.get_fact(Engines, root=root)
    running = [engine for engine in engines.units.values() if not engine.ended]
    if not running:
        host.noop("no engine runs")
    for release in engines.switches:
        yield StringCommand("systemctl stop", QuoteString(f"switch@{release}.service"))
    for engine in running:
        yield StringCommand("systemctl stop", QuoteString(f"vllm@{engine.release}.service"))
    now = "is stopped" if running else "was stopped already"
    conclude(replica, f" {now}. It starts by {next_line('start')}, the next run, or a boot.")


@operation()
def started(
    root: str, replica: str, settings: SwitchSettings, peer: Host | None
) -> Generator[PyinfraCommand, None, None]:
    """Start the release that served last, and wait until it answers.

    Args:
        peer: the other Spark of a pair, on which this operation runs at the same time.
    """
    engines = host.get_fact(Engines, root=root)
    release = engines.current
    if release is None:
        yield failing(
            f"Nothing has served on {spark_name(host)} yet. To begin: {next_line('apply')}"
        )
        return
    own = engines.units.get(release)
    if own and own.active == "active":
        host.noop(f"vllm@{release}.service runs")
        conclude(replica, f" serves {release} already.")
        return
    notice(f"{release} starts", "green")
    outcome = Outcome()
    yield from switch_back(root, release, settings, peer, outcome)
    if not outcome.served:
        yield failing(complaint(release, outcome))
    else:
        conclude(replica, f" serves {release} again.")
