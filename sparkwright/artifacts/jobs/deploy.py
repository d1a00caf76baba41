"""The tools that fetch weights and images on a Spark: programs, their units, huggingface_hub."""

from collections.abc import Iterator
from typing import Any

from pyinfra.api import deploy

from sparkwright.artifacts.jobs.operations import virtual_environment
from sparkwright.artifacts.jobs.state import Environment
from sparkwright.common.files import ManagedFile
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.render import unit_file
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.plan.release.programs import program_files
from sparkwright.run.target import Target, target

_REQUIREMENTS = HOST_FILES / "artifacts" / "weights" / "requirements.txt"
_UNITS = sorted(HOST_FILES.glob("artifacts/*/*.service"))


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark."""
    yield Environment.ask(path=f"{own.root}/hf")


@deploy("Hugging Face tools")
def apply() -> None:
    """Put the programs and their units in place, and what they import into an environment.

    AEON-7 sets HF_HUB_ENABLE_HF_TRANSFER: huggingface_hub 1.0 has dropped that package for
    hf-xet, which it brings along; docs/transfers.md says why weights do not come by it.
    """
    root, settings = target().root, target().settings
    values = {"root": root, "proxy": settings.proxy_variables, "elsewhere": settings.model_folders}
    requirements = _REQUIREMENTS.read_text("utf-8")
    managed_files(
        name="Programs and units",
        entries=[
            *program_files(root),
            ManagedFile(f"{root}/bin/requirements.txt", requirements),
            *(unit_file(path, **values) for path in _UNITS),
        ],
    )
    virtual_environment(
        name="Environment with huggingface_hub",
        path=f"{root}/hf",
        requirements=f"{root}/bin/requirements.txt",
        text=requirements,
    )
