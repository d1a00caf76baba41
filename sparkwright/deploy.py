"""The deploys from end to end: `converge`, and the part of it that begins a rollout."""

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
from sparkwright.run.session import start_session
from sparkwright.run.state import expect
from sparkwright.run.target import target
from sparkwright.upkeep.rollout import deploy as rollout


def converge() -> None:
    """Bring the current Spark from its factory state to a served model.

    pyinfra orders operations by the line of each call, so a group's Sparks take each step together.

    Raises:
        PyinfraError: the input is invalid; no host has been changed.
    """
    start()
    announce()
    preflight.apply()  # is it fit for what it is to serve? Nothing has been changed until here
    fabric.apply()  # of a group: addresses, packet filter, and a proof of the link
    firewall.apply()  # lets in SSH, clients, and a group's other Sparks
    runtime.apply()  # Docker, and a GPU in a container
    engine.vacate()  # a second replica that is no longer declared
    provision()
    engine.apply()  # the release is laid down; a switch has it serve, or takes itself back


def prepare(answers: str) -> None:
    """Bring all that each replica should serve, and touch nothing that serves.

    This is the first run of a rollout; `answers` is the path of its `intend`'s file.
    """
    start()
    preflight.apply()
    provision()
    engine.prepare()
    rollout.intend(answers=answers)


def provision() -> None:
    """Prepare all that an engine needs, without steps that may disturb one that serves."""
    machine.apply()  # journal, memory guard, swap, the GPU's clock
    machine.folders()
    link.apply()  # of a group: keys by which its supervisors recognize each other
    jobs.apply()  # the environment of what downloads
    weights.authenticate()
    weights.apply()  # checkpoints, by jobs that go on without this run
    image.apply()
    door.apply()  # API keys, certificate, haproxy: the only listener
    monitoring.apply()


def start() -> None:
    """Check the run, take the Spark's lease, and say what the steps will read of it."""
    start_session(lease=True)
    own = target()
    subjects = (
        *(preflight, fabric, firewall, runtime, engine, machine, link, jobs),
        *(weights, image, door, monitoring),
    )
    expect(own.host, lambda: [ask for each in subjects for ask in each.reads(own)])
