"""Many small files with one look at the host."""

from collections.abc import Generator, Sequence
from io import BytesIO, StringIO

from pyinfra import host
from pyinfra.api import FileUploadCommand, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.operations import files

from sparkwright.common.files import (
    ABSENT,
    Directory,
    Entry,
    FileState,
    ManagedFile,
    file_difference,
    obstacle,
)
from sparkwright.common.operations import differs, failing
from sparkwright.common.placed import check
from sparkwright.machine.host.facts import path_states
from sparkwright.run.target import target


@operation()
def managed_files(entries: Sequence[Entry]) -> Generator[PyinfraCommand]:
    """Make every entry what it says, in the order given; name a directory before what is in it.

    A path that cannot be read, or that holds another kind of thing, fails the host before any
    change. A directory's parents are made root:root 755; nothing is ever removed.
    """
    check(target().root, [entry.path for entry in entries])
    states = file_states(entries)
    found = {entry: states.get(entry.path, ABSENT) for entry in entries}

    stale = {entry: each for entry in entries if (each := file_difference(entry, found[entry]))}
    for each in stale.values():
        differs(*each)
    if obstacles := [text for pair in found.items() if (text := obstacle(*pair))]:
        yield failing("\n".join(obstacles))
        return
    if not stale:
        host.noop(f"all {len(entries)} paths are current")
    # Listed before the first is yielded: a dry run stops there, and --diff prints on the way.
    commands = [command for entry in stale for command in _put(entry)]
    yield from commands
    yield from _owned([entry for entry in stale if isinstance(entry, ManagedFile)])


def file_states(entries: Sequence[Entry]) -> dict[str, FileState]:
    """Return the states of the entries' paths; one that is missing here is absent."""
    return path_states([entry.path for entry in entries])


def _put(entry: Entry) -> Generator[PyinfraCommand]:
    if isinstance(entry, ManagedFile):
        yield from _upload(entry.path, entry.text)
    elif isinstance(entry, Directory):
        owner = ["-o", QuoteString(entry.user), "-g", QuoteString(entry.group), "-m", entry.mode]
        yield StringCommand("install -d", *owner, QuoteString(entry.path))
    else:
        new = QuoteString(f"{entry.path}.new")
        yield StringCommand("ln -sfnT", QuoteString(entry.target), new)
        yield StringCommand("mv -fT", new, QuoteString(entry.path))


def _upload(path: str, text: str | bytes) -> Generator[PyinfraCommand]:
    if isinstance(text, str):
        yield from files.put._inner(src=StringIO(text), dest=path, create_remote_dir=False)
    else:
        # files.put reads its lines, for --diff.
        name = host.get_temp_filename(path)
        yield FileUploadCommand(BytesIO(text), path, remote_temp_filename=name)


def _owned(entries: Sequence[ManagedFile]) -> Generator[StringCommand]:
    """Yield what gives files their owners and modes: a command for all that have the same."""
    alike: dict[tuple[str, str], list[QuoteString]] = {}
    for entry in entries:
        key = f"{entry.user}:{entry.group}", entry.mode
        alike.setdefault(key, []).append(QuoteString(entry.path))
    for (owner, mode), paths in alike.items():
        yield StringCommand("chown", QuoteString(owner), *paths, "&& chmod", mode, *paths)
