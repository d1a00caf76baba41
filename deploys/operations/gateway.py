"""One address for all replicas."""

from collections.abc import Generator, Sequence

from pyinfra import host
from pyinfra.api import FunctionCommand, HiddenValue, Host, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from deploys.facts.gateway import UNIT, Gateway
from deploys.operations.files import managed_files
from deploys.operations.jobs import virtual_environment
from deploys.operations.messages import failing, notice
from deploys.operations.secrets import secret_file
from deploys.plan.files import Directory, Entry


@operation()
def gateway(
    root: str,
    entries: Sequence[Entry],
    requirements: str,
    secrets: HiddenValue,
    port: int,
    url: str,
    names: str,
) -> Generator[PyinfraCommand, None, None]:
    """Run the gateway with these files, and show which replicas it reaches.

    Args:
        root: folder of everything on the host.
        entries: its files and their folders, that of the requirements among them.
        requirements: the packages that it runs with, each with its hashes.
        secrets: the environment file with its keys, for systemd alone.
        port: TCP port; one that another program has fails the host before any change.
        url: where clients reach it.
        names: what they may ask for, in one line.
    """
    folder, keys = f"{root}/gateway", f"{root}/secrets/gateway.env"
    files = [entry.path for entry in entries if not isinstance(entry, Directory)]
    state = host.get_fact(Gateway, port=port, files=[*files, keys])
    if state.holder:
        yield failing(
            f"Port {port} is taken by {state.holder}: stop it, or give the gateway another port "
            "in the inventory."
        )
        return
    changes = [
        *managed_files._inner(entries=entries),
        *secret_file._inner(path=keys, content=secrets),
        *virtual_environment._inner(
            path=f"{folder}/env", requirements=f"{folder}/requirements.txt", text=requirements
        ),
    ]
    yield from changes
    if not state.enabled:
        yield StringCommand("systemctl enable --quiet", UNIT)
    if changes or state.outdated or not state.active:
        # Five failures in a row would otherwise forbid a start by hand, too.
        yield StringCommand(
            f"systemctl daemon-reload && systemctl reset-failed {UNIT} 2>/dev/null; "
            f"systemctl restart {UNIT} || "
            "{ journalctl --unit",
            UNIT,
            "--lines 15 --no-pager --output cat >&2; exit 1; }",
        )
        yield FunctionCommand(_report, (port, url, names), {})
    elif state.enabled:
        notice(_words(url, names, state.status), colour="green")


def _report(state: State, host: Host, port: int, url: str, names: str) -> bool:
    found = host.get_fact(Gateway, port=port, files=())
    host.log(_words(url, names, found.status))
    return found.active


def _words(url: str, names: str, status: str) -> str:
    return f"The gateway answers at {url}/v1. Names: {names}. Replicas {status}."
