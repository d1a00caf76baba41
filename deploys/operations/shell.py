"""A command that an operation runs at once, in the midst of its own."""

from typing import Any

from pyinfra.api import Host, StringCommand
from pyinfra.connectors.util import CommandOutput


def run_now(host: Host, command: StringCommand, **options: Any) -> tuple[bool, CommandOutput]:
    """Run a command on a host, as root where the inventory says so.

    Args:
        host: the host; it need not be the one whose operation runs.
        command: for its shell.
        options: further ones of pyinfra's `run_shell_command`.

    Returns:
        Whether it succeeded, and what it printed.
    """
    return host.run_shell_command(command, _sudo=uses_sudo(host), **options)


def spark_name(host: Host) -> str:
    """Return the name of a host in the inventory: pyinfra calls its own machine @local."""
    return str(host.data.get("spark") or host.name)


def uses_sudo(host: Host) -> bool:
    """Tell whether commands run as root by sudo."""
    return bool(host.data.get("_sudo"))
