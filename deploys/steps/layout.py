"""The folders of /opt/qwen36, their owners and modes."""

from pyinfra.api import deploy

from deploys.operations.files import managed_files
from deploys.plan.placed import layout
from deploys.target import target


@deploy("Layout")
def apply() -> None:
    """Make the root folder and what stands in it beside weights.

    All of it is root's. AEON-7 gives it to the user who downloads; here units do that, and what
    an engine runs as root must not be another's to change.
    """
    managed_files(name="Folders", entries=layout(target().root))
