"""The door of a replica: on its head, and nowhere else."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.errors import Difference
from sparkwright.common.files import ABSENT, Entry, ManagedFile, file_difference, secret_difference
from sparkwright.common.operations import differs, failing, notice, unit_differs
from sparkwright.common.placed import SYSTEMD
from sparkwright.door.door import (
    CONFIG,
    UNIT,
    DoorPlan,
    DoorState,
    ask_door,
    door_folder,
    door_unit,
    mark,
)
from sparkwright.machine.host.operations.files import managed_files, path_states
from sparkwright.machine.host.operations.packages import install
from sparkwright.machine.host.state import unit_state
from sparkwright.run.state import read

_PACKAGE = "haproxy"


@operation()
def door(
    root: str, plan: DoorPlan, folders: Sequence[Entry], unit: ManagedFile
) -> Generator[PyinfraCommand]:
    """Have the door open: haproxy in a unit of its own, with these settings, keys and certificate.

    haproxy checks new files before they take the place of those in force. They come into force by
    a reload, which ends no stream; only a new unit file restarts the door. haproxy's own service
    stays as its owner has set it.
    """
    name = door_unit(root)
    state = read(host, ask_door(root, plan.settings.bind, plan.port))
    warn(plan)
    if why := plan.obstacle(state):
        yield failing(why)
        return
    files = plan.files(root)
    laid_down = list(managed_files._inner(entries=[*folders, unit]))
    unit_file = path_states([unit.path]).get(unit.path, ABSENT)
    running = unit_state(state.unit, [unit_file])
    differing = _differing(door_folder(root), files)
    for each in differing:
        differs(*each)
    if not state.installed:
        differs(f"package {_PACKAGE}", "installed", "not installed")
    if state.stray:
        differs("haproxy.service", "off", "active or enabled")
    unit_differs(name, active=running.active, enabled=running.enabled, outdated=running.outdated)
    if running.active and state.mark != mark(files):
        differs(name, "the declared settings loaded", "others")
    if running.active and state.version != state.installed:
        differs(name, f"haproxy {state.installed}", f"{state.version} still runs")
    yield from haproxy(state)
    yield from laid_down
    if differing:
        yield from _proved(root, files)
    if not running.enabled:
        yield StringCommand(f"systemctl enable --quiet {name}")
    if running.outdated or file_difference(unit, unit_file):
        yield StringCommand(f"systemctl daemon-reload && systemctl restart {name}")
    elif not running.active:
        yield StringCommand(f"systemctl start {name}")
    elif (state.mark, state.version) != (mark(files), state.installed):
        yield StringCommand(f"systemctl reload {name}")


def haproxy(state: DoorState) -> Iterator[PyinfraCommand]:
    """Have the package; its own service is off, unless it is an owner's."""
    if not state.installed:
        yield install(_PACKAGE)
    if not state.installed or state.stray:
        yield StringCommand("systemctl disable --quiet --now haproxy.service")


def warn(plan: DoorPlan) -> None:
    """Tell who else may read what goes through a door, and that its certificate ends soon."""
    if plan.keys is None:
        notice(
            f"Port {plan.port} needs no key (`api_key: none`): anyone who can reach it can use it."
        )
    elif not (plan.certificate or ip_address(plan.settings.bind).is_loopback):
        notice(
            f"Keys and prompts go to port {plan.port} in the clear, and the network can read them: "
            '`tls = "own"` in the group data ends that (docs/door.md).'
        )
    for each in plan.certificate.notices(datetime.now(UTC)) if plan.certificate else ():
        notice(each)


@operation()
def no_door(root: str, seats: bool = False) -> Generator[StringCommand]:
    """Have no door: this Spark is no head, but maybe of other `seats`. haproxy itself stays."""
    paths = [f"{root}/door/{CONFIG}" if seats else f"{root}/door", f"{SYSTEMD}/{UNIT}"]
    if all(each.kind == "absent" for each in path_states(paths).values()):
        host.noop("there is no door")
        return
    differs(UNIT, "none: this Spark is no head", "one")
    yield StringCommand(
        f"systemctl disable --quiet --now {UNIT} 2>/dev/null; "
        f"rm -f {SYSTEMD}/{UNIT} && systemctl daemon-reload && rm -rf",
        QuoteString(paths[0]),
    )


def _differing(folder: str, files: Mapping[str, str | None]) -> list[Difference]:
    """Return which of haproxy's files are not as declared; the hashes of keys stay untold."""
    paths = {f"{folder}/{name}": text for name, text in files.items()}
    found = path_states(list(paths))
    each = (secret_difference(path, paths[path], found.get(path, ABSENT)) for path in paths)
    return [difference for difference in each if difference]


def _proved(root: str, files: Mapping[str, str | None]) -> Generator[StringCommand]:
    """Put haproxy's files in place, all of them, once haproxy has read them elsewhere.

    They travel by standard input: the private key is among them.
    """
    folder, new = f"{root}/door", f"{root}/door/next"
    yield StringCommand("rm -rf", QuoteString(new), "&& install -d -m 700", QuoteString(new))
    moves: list[str | QuoteString] = []
    for name, text in files.items():
        staged, place = QuoteString(f"{new}/{name}"), QuoteString(f"{folder}/{name}")
        if text is None:
            moves += ["&& rm -f", place]
            continue
        yield StringCommand("umask 077 && cat >", staged, _stdin=text)
        moves += ["&& mv -f", staged, place]
    program = ["python3 -B", QuoteString(f"{root}/bin/sparkwright-host"), "door", QuoteString(root)]
    yield StringCommand(
        *(*program, "sync && { said=$(haproxy -c -C", QuoteString(new)),
        *("-f door.cfg -f", QuoteString(f"{folder}/engines.cfg")),
        "2>&1) || { printf '%s\\n' \"$said\" >&2; exit 1; }; } &&",
        *(*program, "compare", QuoteString(new), *moves, "&& rmdir", QuoteString(new)),
    )
