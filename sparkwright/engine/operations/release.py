"""Installs a release and the programs that switch to it; older releases stay unchanged."""

from collections.abc import Generator, Sequence

from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Entry
from sparkwright.common.operations import Refused
from sparkwright.host.operations.files import managed_files
from sparkwright.release.release import adoption_script, retirement_script


@operation()
def programs_and_release(root: str, entries: Sequence[Entry]) -> Generator[PyinfraCommand]:
    """Make every entry current, as `managed_files` does.

    On a Spark of an older Sparkwright, whose releases all ran the programs in ROOT/bin, each
    release first gets its own copy of them, so that a rollback starts what it was made with.

    Args:
        root: the folder of everything on the Spark.
        entries: the unit file among them.
    """
    changes = list(managed_files._inner(entries=entries))
    # Only a new unit file needs the copies; a failing operation must change nothing.
    adopt = bool(changes) and not isinstance(changes[0], Refused)
    if adopt:
        yield StringCommand(adoption_script(root))
    yield from changes
    if adopt:
        yield StringCommand(retirement_script(root))
