"""The tools that fetch weights and images on a Spark: programs, their units, huggingface_hub."""

from pyinfra.api import deploy

from sparkwright.common.files import Entry, ManagedFile
from sparkwright.common.paths import FILES
from sparkwright.common.render import unit_file
from sparkwright.host.operations.files import managed_files
from sparkwright.jobs.operations import virtual_environment
from sparkwright.run.target import target

_FILES = FILES / "jobs"


@deploy("Hugging Face tools")
def apply() -> None:
    """Put the programs and their units in place, and what they import into an environment.

    AEON-7 sets HF_HUB_ENABLE_HF_TRANSFER: huggingface_hub 1.0 has dropped that package for
    hf-xet, which is in the environment.
    """
    root = target().root
    requirements = (_FILES / "requirements.txt").read_text()
    entries: list[Entry] = [
        ManagedFile(f"{root}/bin/{path.name}", path.read_text())
        for path in (*sorted(_FILES.glob("*.py")), _FILES / "requirements.txt")
    ]
    entries += [unit_file(path, root=root) for path in sorted(_FILES.glob("*.service"))]
    managed_files(name="Programs and units", entries=entries)
    virtual_environment(
        name="Environment with huggingface_hub",
        path=f"{root}/hf",
        requirements=f"{root}/bin/requirements.txt",
        text=requirements,
    )
