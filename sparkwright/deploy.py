"""The deploys from end to end: `converge`, and the part of it that begins a rollout.

In a deploy of another project, beside operations of its own:

    from sparkwright.deploy import converge

    converge()
"""

from sparkwright.artifacts.image import deploy as image
from sparkwright.artifacts.jobs import deploy as jobs
from sparkwright.artifacts.weights import deploy as weights
from sparkwright.door import deploy as door
from sparkwright.engine import deploy as engine
from sparkwright.insight.monitoring import deploy as monitoring
from sparkwright.insight.status.operations import announce
from sparkwright.machine.firewall import deploy as firewall
from sparkwright.machine.host import deploy as machine
from sparkwright.machine.preflight import deploy as preflight
from sparkwright.machine.runtime import deploy as runtime
from sparkwright.network.fabric import deploy as fabric
from sparkwright.network.link import deploy as link
from sparkwright.run.lease import hold_lease
from sparkwright.run.session import start_session
from sparkwright.run.state import expect
from sparkwright.run.survey import surveyed
from sparkwright.run.target import target
from sparkwright.upkeep.rollout import deploy as rollout


def converge() -> None:
    """Bring the current Spark from its factory state to a served model.

    pyinfra orders operations by the line of each call.

    Raises:
        PyinfraError: the input is invalid; no host has been changed.
    """
    start_session()
    hold_lease()
    announce()
    expect_all()
    with surveyed():
        preflight.apply()
        fabric.apply()
        firewall.apply()
        runtime.apply()
        engine.vacate()
        provision()
        engine.apply()


def prepare(answers: str) -> None:
    """Bring all that each replica should serve, and touch nothing that serves.

    This is the first run of a rollout.

    Args:
        answers: path of a file, for `sparkwright.upkeep.rollout.deploy.intend`.
    """
    start_session()
    hold_lease()
    with surveyed():
        preflight.apply()
        provision()
        engine.prepare()
    rollout.intend(answers=answers)


def expect_all() -> None:
    """Have the first step that reads the Spark read for all of them, in one command."""
    own = target()
    parts = (
        machine,
        firewall,
        jobs,
        weights,
        image,
        door,
        monitoring,
        engine,
        preflight,
        fabric,
        runtime,
        link,
    )
    expect(own.host, lambda: [ask for part in parts for ask in part.reads(own)])


def provision() -> None:
    """Prepare all that an engine needs, without steps that may disturb one that serves."""
    machine.apply()
    machine.folders()
    link.apply()
    jobs.apply()
    weights.authenticate()
    weights.apply()
    image.apply()
    door.apply()
    monitoring.apply()
