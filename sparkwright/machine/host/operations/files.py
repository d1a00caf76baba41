"""What Sparkwright has placed on the current host; many small files by one look at it; secrets.

A secret goes to a host by stdin only: not by arguments, environment, diffs or temporary files.
"""

from collections.abc import Generator, Sequence
from io import BytesIO, StringIO

from pyinfra import host
from pyinfra.api import FileUploadCommand, HiddenValue, QuoteString, StringCommand, operation
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
    secret_difference,
)
from sparkwright.common.operations import differs, failing, notice
from sparkwright.common.placed import check
from sparkwright.machine.host.state import Placed, UnitState, ask_placed, asks_for
from sparkwright.plan.release.token import NONE
from sparkwright.run.state import read
from sparkwright.run.target import target


def placed() -> Placed:
    """Return what the host has of all that Sparkwright places, but for releases."""
    return read(host, ask_placed(target().root))


def path_states(paths: Sequence[str]) -> dict[str, FileState]:
    """Return the states of paths; one that is missing here is absent."""
    found: dict[str, FileState] = {}
    for ask, asked in asks_for(target().root, paths).items():
        states = read(host, ask).files
        found |= {path: states[path] for path in asked if path in states}
    return found


def unit_state(unit: str, files: Sequence[str] = ()) -> UnitState:
    """Return the state of a unit in relation to the files that configure it."""
    return placed().unit(unit, path_states(files).values())


@operation()
def managed_files(entries: Sequence[Entry]) -> Generator[PyinfraCommand]:
    """Make every entry what it says, in the order given; name a directory before what is in it.

    A path that cannot be read, or that holds another kind of thing, fails the host before any
    change. A directory's parents are made root:root 755; nothing is ever removed.
    """
    check(target().root, [entry.path for entry in entries])
    states = path_states([entry.path for entry in entries])
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


def _put(entry: Entry) -> Generator[PyinfraCommand]:
    if isinstance(entry, ManagedFile):
        if isinstance(entry.text, str):
            text = StringIO(entry.text)
            yield from files.put._inner(src=text, dest=entry.path, create_remote_dir=False)
        else:
            # files.put reads its lines, for --diff.
            name = host.get_temp_filename(entry.path)
            yield FileUploadCommand(BytesIO(entry.text), entry.path, remote_temp_filename=name)
    elif isinstance(entry, Directory):
        owner = ["-o", QuoteString(entry.user), "-g", QuoteString(entry.group), "-m", entry.mode]
        yield StringCommand("install -d", *owner, QuoteString(entry.path))
    else:
        new = QuoteString(f"{entry.path}.new")
        yield StringCommand("ln -sfnT", QuoteString(entry.target), new)
        yield StringCommand("mv -fT", new, QuoteString(entry.path))


def _owned(entries: Sequence[ManagedFile]) -> Generator[StringCommand]:
    """Yield what gives files their owners and modes: a command for all that have the same."""
    alike: dict[tuple[str, str], list[QuoteString]] = {}
    for entry in entries:
        key = f"{entry.user}:{entry.group}", entry.mode
        alike.setdefault(key, []).append(QuoteString(entry.path))
    for (owner, mode), paths in alike.items():
        yield StringCommand("chown", QuoteString(owner), *paths, "&& chmod", mode, *paths)


@operation()
def secret_file(
    path: str, content: HiddenValue | None, proof: StringCommand | None = None
) -> Generator[StringCommand]:
    """Have a file of mode 0600 that root owns, with this content, or with None no file.

    Args:
        path: in a folder that only root can enter.
        content: ends with a newline, which pyinfra would add. Hidden, as pyinfra prints the
            arguments of an operation without a name.
        proof: a command that fails where the content at `path`.new is no good.
    """
    found = path_states([path]).get(path, ABSENT)
    text = content.unmask() if content else None
    if (difference := secret_difference(path, text, found)) is None:
        host.noop(f"{path} is current")
        return
    if found.kind not in ("file", "absent"):
        yield failing(f"{path} is no file ({found.kind}) {found.detail}: move it away.")
        return
    differs(*difference)
    new = QuoteString(f"{path}.new")
    if text is None:
        yield StringCommand("rm -f", QuoteString(path), new)
        return
    proved = ["&& { (", proof, ") || { rm -f", new, "; exit 1; }; }"] if proof else []
    # An old .new would keep its own mode.
    put = ("umask 077 && rm -f", new, "&& cat >", new)
    yield StringCommand(*put, *proved, "&& mv -f", new, QuoteString(path), _stdin=text)


@operation()
def hub_token(token: HiddenValue | None) -> Generator[StringCommand]:
    """Have the Hugging Face token on the host, proved by the hub's whoami from there.

    A token that the hub refuses fails the host, and the previous one stays. Without one, downloads
    are anonymous, unless the host has a token already, and the settings let it keep that.
    """
    root, settings = target().root, target().settings
    path = f"{root}/secrets/hf-token"
    if token is None:
        found, keep = path_states([path]).get(path, ABSENT), settings.hf_token != NONE
        if found.kind == "absent" or not keep:
            notice("No Hugging Face token: downloads are anonymous, and limited in rate.")
        if found.kind != "absent" and not keep:
            yield from secret_file._inner(path=path, content=None)
            return
        host.noop(f"no new token for {path}")
        return
    text = token.unmask().strip()
    proof = StringCommand(
        # A token of the host's own would win over the file. A hub may answer without end.
        "timeout 120 env -u HF_TOKEN -u HUGGING_FACE_HUB_TOKEN",
        StringCommand("HF_ENDPOINT=", QuoteString(settings.hf_endpoint), _separator=""),
        StringCommand("HF_TOKEN_PATH=", QuoteString(f"{path}.new"), _separator=""),
        "HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_UPDATE_CHECK=1",
        *(QuoteString(f"{name}={value}") for name, value in settings.proxy_variables.items()),
        QuoteString(f"{root}/hf/bin/python"),
        "-B",
        QuoteString(f"{root}/bin/sparkwright-host"),
        "check-token",
    )
    yield from secret_file._inner(path=path, content=HiddenValue(f"{text}\n"), proof=proof)
