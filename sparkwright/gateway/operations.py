"""One address for all replicas."""

from collections.abc import Generator, Mapping, Sequence

from pyinfra import host
from pyinfra.api import FunctionCommand, HiddenValue, Host, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Directory, Entry
from sparkwright.common.operations import failing, notice
from sparkwright.common.terminal import plain
from sparkwright.door.door import DoorPlan
from sparkwright.door.operations import warn
from sparkwright.gateway.facts import DOOR, UNIT, UNITS, GatewayStates
from sparkwright.host.operations.files import managed_files
from sparkwright.host.operations.packages import install
from sparkwright.host.operations.secrets import secret_file
from sparkwright.jobs.operations import virtual_environment


@operation()
def gateway(
    root: str,
    entries: Sequence[Entry],
    requirements: str,
    secrets: Mapping[str, HiddenValue | None],
    door: DoorPlan,
    url: str,
    names: str,
) -> Generator[PyinfraCommand, None, None]:
    """Run the gateway with these files, and show which replicas it reaches.

    Args:
        entries: its files and their folders, that of the requirements among them.
        requirements: the packages that it runs with, each with its hashes.
        secrets: path -> content of the files with its key and of its door; None for one that must
            be absent.
        door: its door; if another program has its port, the host fails before any change.
        url: where clients reach it.
        names: the names that they may ask for, in one line.
    """
    folder, port = f"{root}/gateway", door.port
    warn(door)
    files = [entry.path for entry in entries if not isinstance(entry, Directory)]
    state = host.get_fact(GatewayStates, root=root, port=port, files=[*files, *secrets])
    if state.holder:
        yield failing(
            f"Port {port} is taken by {state.holder}: stop it, or give the gateway another port "
            "in the inventory."
        )
        return
    changes = [
        *managed_files._inner(entries=entries),
        *(
            command
            for path, content in secrets.items()
            for command in secret_file._inner(path=path, content=content)
        ),
        *virtual_environment._inner(
            path=f"{folder}/env", requirements=f"{folder}/requirements.txt", text=requirements
        ),
    ]
    if not state.installed:
        yield install("haproxy")
    # An owner's own haproxy.service stays as it is.
    if not state.installed or state.stray:
        yield StringCommand("systemctl disable --quiet --now haproxy.service")
    yield from changes
    if not state.enabled:
        yield StringCommand("systemctl daemon-reload && systemctl enable --quiet", *UNITS)
    if changes or state.outdated or not state.active:
        # Five failures in a row would otherwise forbid a start by hand, too.
        yield StringCommand(
            f"systemctl daemon-reload && systemctl reset-failed {UNIT} 2>/dev/null; "
            f"haproxy -c -q -C {folder}/door -f door.cfg -f engines.cfg && "
            f"systemctl stop {' '.join(reversed(UNITS))} && "
            f"systemctl start {' '.join(UNITS)} || "
            f"{{ journalctl --unit {UNIT} --unit {DOOR}",
            "--lines 15 --no-pager --output cat >&2; exit 1; }",
        )
        yield FunctionCommand(_report, (root, port, url, names), {})
    elif state.enabled:
        notice(_summary(url, names, state.status), color="green")


def _report(state: State, host: Host, root: str, port: int, url: str, names: str) -> bool:
    now = host.get_fact(GatewayStates, root=root, port=port, files=())
    host.log(plain(_summary(url, names, now.status)))
    return now.active


def _summary(url: str, names: str, status: str) -> str:
    return f"The gateway answers at {url}/v1. Names: {names}. Replicas {status}."
