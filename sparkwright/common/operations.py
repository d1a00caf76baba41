"""The base of operations: differences, messages, failing commands, and commands run at once."""

import sys
from collections.abc import Callable
from typing import Any

from pyinfra import host, logger, state
from pyinfra.api import Host, QuoteString, StringCommand
from pyinfra.api.command import FileUploadCommand, PyinfraCommand
from pyinfra.api.state import StateStage
from pyinfra.connectors.util import CommandOutput

from sparkwright.common.errors import Difference
from sparkwright.common.terminal import plain, plain_lines

# Characters of a command that are shown: enough to know it by.
_SHOWN = 120
_noted: dict[str, list[tuple[str | None, Difference]]] = {}


class Refused(StringCommand):
    """A command that only prints why an operation cannot do its work, and fails."""

    def __init__(self, message: str) -> None:
        super().__init__("printf '%s\\n'", QuoteString(message), ">&2; exit 1")
        self.message = message


def differs(what: str, expected: str, found: str) -> None:
    """Record how a file, unit or package differs from what is declared, without a secret's hash.

    To be called before an operation's first command; only a look for differences heeds it.
    """
    if is_looking():
        _noted[host.name].append((host.current_op_hash, Difference(what, expected, found)))


def unit_differs(unit: str, *, active: bool, enabled: bool, outdated: bool = False) -> None:
    """Record how a unit differs that should run, and start at boot."""
    if not active:
        differs(unit, "active", "not active")
    if not enabled:
        differs(unit, "enabled", "not enabled")
    if active and outdated:
        differs(unit, "started after its files last changed", "started before")


def is_looking() -> bool:
    """Tell whether the run looks for differences of the current host."""
    return host.name in _noted


def look(steps: Callable[[], None]) -> list[Difference]:
    """Return the differences that operations find on the current host; no command of them runs.

    pyinfra asks each operation for its first command, as it does to predict a change. If there is
    one, and the operation recorded no difference, the command stands for it.

    Raises:
        PyinfraError: the host could not be read.
    """
    noted = _noted[host.name] = []
    # With -y, pyinfra would not ask for the commands.
    state.check_for_changes = True
    try:
        steps()
        found = []
        for op in host.op_hash_order:
            recorded = [difference for of, difference in noted if of == op]
            data = state.get_op_data_for_host(host, op)
            if not recorded and data.operation_meta.will_change:
                recorded = _by_command(step_name(op), next(data.command_generator()))
            found += recorded
    finally:
        del _noted[host.name]
    # Those of no operation come last.
    return list(dict.fromkeys([*found, *(difference for of, difference in noted if of is None)]))


def _by_command(name: str, command: PyinfraCommand) -> list[Difference]:
    if isinstance(command, Refused):
        lines = command.message.splitlines()
        return [Difference(name, "nothing in its way", line) for line in lines if line]
    if isinstance(command, FileUploadCommand):
        return [Difference(name, "as it is", f"a run would write {command.dest}")]
    words = " ".join(str(command).split())
    shown = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
    return [Difference(name, "as it is", f"a run would do: {shown}")]


def step_name(op: str) -> str:
    """Return the name of an operation, or the names of those that pyinfra takes for one."""
    return ", ".join(sorted(state.get_op_meta(op).names))


def failing(message: str, *, mended: bool = False) -> StringCommand:
    """Return a command that prints `message` as its error and exits with status 1.

    An exception in an operation would end the run for every host. The plan shows the message, too,
    and a run that only plans, or would ask, then has exit status 1, as one with -y would.
    The plan is silent on an obstacle that is `mended`: an earlier operation removes it.
    """
    message = plain_lines(message)
    if planning() and not (mended or is_looking()):
        _show_in_plan(message)
    return Refused(message)


def _show_in_plan(message: str) -> None:
    assert host.current_op_hash
    own = state.inventory.get_host(host.name)
    if own in state.failed_hosts:
        # A run ends at the first, and what follows has mostly the same cause.
        return
    name = step_name(host.current_op_hash)
    for line in (f"{name}: a run would fail here:", *message.splitlines()):
        host.log_styled(line, fg="red", log_func=logger.error)
    # fail_hosts would end the plan for all hosts.
    state.failed_hosts.add(own)


def notice(message: str, color: str = "yellow") -> None:
    """Show a line once: in the plan, or during the execution if there was no plan (`-y`).

    A run that looks for differences shows no notices.
    """
    if is_first_pass() and not is_looking():
        host.log_styled(plain(message), fg=color, log_func=logger.warning)


def is_first_pass() -> bool:
    """Tell whether an operation is in the plan, or in the execution of a run without one (`-y`)."""
    return planning() or not state.check_for_changes


def planning() -> bool:
    """Tell whether pyinfra is making the plan."""
    return bool(state.current_stage == StateStage.Prepare)


def would_change() -> bool:
    """Tell whether an operation of this run, which has been planned, would change a Spark."""
    planned = (data for each in state.active_hosts for data in state.ops[each].values())
    return any(data.operation_meta.will_change for data in planned)


def is_dry_run() -> bool:
    """Tell whether the run only plans, and must write no file, not even on this machine."""
    # pyinfra does not pass this on to deploys. With --json and without -y it plans, too.
    return "--dry" in sys.argv or ("--json" in sys.argv and not {"-y", "--yes"} & {*sys.argv})


def run_now(host: Host, command: StringCommand, **options: Any) -> tuple[bool, CommandOutput]:
    """Run a command on a host, as root if the inventory sets `_sudo`."""
    return host.run_shell_command(command, _sudo=uses_sudo(host), **options)


def spark_name(host: Host) -> str:
    """Return the inventory's name of a host: pyinfra calls its own machine @local."""
    return str(host.data.get("spark") or host.name)


def partners(host: Host) -> list[Host]:
    """Return the hosts that serve one model with a host, itself among them, in rank order."""
    ranks = host.data.get("ranks") or ()
    if len(ranks) < 2:
        return [host]
    known = {each.data.get("spark"): each for each in host.inventory}
    return [known[spark] for spark in ranks if spark in known]


def uses_sudo(host: Host) -> bool:
    """Tell whether commands run as root by sudo."""
    return bool(host.data.get("_sudo"))
