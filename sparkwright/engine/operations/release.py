"""Lay down what runs engines and switches between them, without a change to older releases."""

from collections.abc import Generator, Sequence

from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Entry
from sparkwright.common.operations import Refused
from sparkwright.host.operations.files import managed_files
from sparkwright.release.release import adoption_script, retirement_script


@operation()
def programs_and_release(root: str, entries: Sequence[Entry]) -> Generator[PyinfraCommand]:
    """Make every entry what it says, as `managed_files` does.

    A Spark on which all releases ran the programs in ROOT/bin is taken over first: each release
    gets its own copy of them, so that it comes back under the programs that it was made with.

    Args:
        root: the folder of everything on the Spark.
        entries: the unit file among them.
    """
    changes = list(managed_files._inner(entries=entries))
    # Until the unit file has changed, nobody needs the copies; what is to fail changes nothing.
    take_over = bool(changes) and not isinstance(changes[0], Refused)
    if take_over:
        yield StringCommand(adoption_script(root))
    yield from changes
    if take_over:
        yield StringCommand(retirement_script(root))
