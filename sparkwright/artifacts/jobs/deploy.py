"""Jobs: units on the Spark that fetch weights and images, and go on without a connection.

`apply` places their programs and what these import; the functions below start and follow them.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from hashlib import sha256
from io import StringIO
from typing import Any, ClassVar

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.operations import files

from sparkwright.common.files import ManagedFile
from sparkwright.common.operations import differs
from sparkwright.common.part import Ask, Bounded, Part
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.progress import JobProgress, ProgressLines
from sparkwright.common.render import unit_file
from sparkwright.machine.host.operations.bundle import send
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.machine.host.operations.packages import install
from sparkwright.plan.release.bundle import WHEELS, wheels_of
from sparkwright.plan.release.programs import program_files
from sparkwright.run.state import read, read_now
from sparkwright.run.target import Target, bad_input, target

# Seconds between two looks at a job.
POLL = 2
# The commands of a killed run go on: only one command at a time may change an environment.
_ALONE = "flock /run/lock/sparkwright-environment"
LOST = "The Spark stopped responding. What runs there needs no connection: run again to follow it."


class Environment(Part):
    """A virtual environment: sha256 of its requirements, None if it does not work."""

    part: ClassVar = "artifacts.environment"

    requirements: str | None


class JobState(Bounded):
    """The state of a job's unit, in systemd's word, and the last progress report of the job."""

    active: str = "failed"
    progress: JobProgress | None = None


class Jobs(Part):
    """Jobs by unit name without its suffix, such as "weights@qwen36-nvfp4"."""

    part: ClassVar = "artifacts.jobs"

    jobs: dict[str, JobState]


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark."""
    yield Environment.ask(path=f"{own.root}/hf")


@deploy("Hugging Face tools")
def apply() -> None:
    """Put the programs and their units in place, and what they import into an environment."""
    root, settings = target().root, target().settings
    values = {"root": root, "proxy": settings.proxy_variables, "elsewhere": settings.model_folders}
    units = sorted(HOST_FILES.glob("artifacts/*/*.service"))
    text = (HOST_FILES / "artifacts/weights/requirements.txt").read_text("utf-8")
    requirements = f"{root}/bin/requirements.txt"
    managed_files(
        name="Programs and units",
        entries=[
            *program_files(root),
            ManagedFile(requirements, text),
            *(unit_file(path, **values) for path in units),
        ],
    )
    virtual_environment(
        name="Environment with huggingface_hub",
        path=f"{root}/hf",
        requirements=requirements,
        text=text,
    )


@operation()
def virtual_environment(path: str, requirements: str, text: str) -> Generator[PyinfraCommand]:
    """Make a virtual environment with exactly the packages of a file on the host, by their hashes.

    It is made anew when the file or the system's Python changes. Python's venv module is installed
    if the system lacks it, as Debian and Ubuntu do.

    Args:
        text: content of the file; the environment keeps a copy, written last.
    """
    found = read(host, Environment.ask(path=path)).requirements
    if found == sha256(text.encode()).hexdigest():
        host.noop(f"{path} has the packages of {requirements}")
        return
    differs(path, f"an environment with the packages of {requirements}", "none, or another")
    python = QuoteString(f"{path}/bin/python")
    yield install("python3-venv", unless="python3 -c 'import ensurepip' 2>/dev/null")
    own = target()
    proxy = [QuoteString(f"{key}={text}") for key, text in own.settings.proxy_variables.items()]
    source: list[str | QuoteString] = []
    if bundle := own.bundle:
        with bad_input():
            wheels = wheels_of(bundle, text, requirements)
        yield send(bundle, wheels)
        source = ["--no-index --find-links", QuoteString(f"{own.root}/bundle/{WHEELS}")]
    yield StringCommand(_ALONE, "python3 -m venv --clear", QuoteString(path))
    # The lock names every package. Were pip to resolve, versions before 23.3 would refuse a package
    # with an extra as soon as PyPI has a newer release of it.
    pip = "-m pip install --quiet --disable-pip-version-check --no-deps --require-hashes"
    yield StringCommand(
        *(_ALONE, *(["env", *proxy] if proxy else []), python, pip, *source),
        *("--only-binary :all: --requirement", QuoteString(requirements)),
    )
    yield StringCommand("cp", QuoteString(requirements), QuoteString(f"{path}/.requirements"))


def put_manifest(root: str, manifest: str, job: str, text: str) -> Generator[PyinfraCommand]:
    """Yield the commands that stop a job and give it new orders; none if it has them."""
    how: Any = {"user": "root", "group": "root", "mode": "644", "create_remote_dir": False}
    place = f"{root}/manifests/{manifest}.json"
    changes = list(files.put._inner(src=StringIO(text), dest=place, **how))
    if changes:
        yield StringCommand("systemctl stop", QuoteString(f"{job}.service"))
        yield from changes


def start(job: str) -> StringCommand:
    """Return the command that starts a job, or does nothing if it runs.

    A job that fails while its unit still starts has written its reason, as one that fails later.
    """
    unit = QuoteString(f"{job}.service")
    begin = ("systemctl daemon-reload && { systemctl start", unit)
    return StringCommand(*begin, "|| systemctl is-failed --quiet", unit, "; }")


def follow(root: str, jobs: Sequence[str]) -> Generator[PyinfraCommand, None, dict[str, JobState]]:
    """Show the progress of jobs until all have ended; return how they were last."""
    last: dict[str, JobState] = {}

    def run(state: State, host: Host) -> bool:
        shown = {job: ProgressLines(partial(_log, host, job)) for job in jobs}
        while True:
            try:
                states = read_now(host, Jobs.ask(root=root, jobs=list(jobs))).jobs
            except PyinfraError:
                host.log(LOST, logger.error)
                return False
            last.update({job: states.get(job, JobState()) for job in jobs})
            running = [job for job in jobs if last[job].active not in ("inactive", "failed")]
            for job in running:
                if progress := last[job].progress:
                    shown[job].show(progress)
            if not running:
                return True
            time.sleep(POLL)

    yield FunctionCommand(run, (), {})
    return last


def _log(host: Host, job: str, line: str) -> None:
    host.log(f"{job}: {line}")


def reason(job: str, state: JobState) -> str:
    """Return why an ended job has not done its work."""
    if state.progress and state.progress.phase == "failed":
        return state.progress.message
    return f"{job}.service ended before its work was done: look with `journalctl -u {job}`."
