"""The folders of /opt/qwen36, their owners and modes."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.files import managed_files
from deploys.plan.files import Directory


@deploy("Layout")
def apply() -> None:
    """Make the root folder and what stands in it beside weights.

    All of it is root's. AEON-7 gives it to the user who downloads; here units do that, and what
    an engine runs as root must not be another's to change.
    """
    root = host.data.root
    managed_files(
        name="Folders",
        entries=[
            Directory(root),
            Directory(f"{root}/backups", mode="700"),
            Directory(f"{root}/bin"),
            Directory(f"{root}/cache", mode="700"),
            Directory(f"{root}/exports"),
            Directory(f"{root}/jobs"),
            Directory(f"{root}/link"),
            Directory(f"{root}/manifests"),
            Directory(f"{root}/releases"),
            Directory(f"{root}/secrets", mode="700"),
            Directory(f"{root}/state"),
        ],
    )
