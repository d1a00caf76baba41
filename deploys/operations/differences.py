"""The differences from what is declared: operations tell them where somebody only looks."""

from collections.abc import Callable

from pyinfra import host, state
from pyinfra.api import StringCommand
from pyinfra.api.command import FileUploadCommand, PyinfraCommand

from deploys.plan.difference import Difference

# Characters of a command that are shown: enough to know it by.
_SHOWN = 120
_noted: dict[str, list[tuple[str | None, Difference]]] = {}


class Refusal(StringCommand):
    """A command that only says why an operation cannot do its work."""

    def __init__(self, message: str, *bits: object) -> None:
        super().__init__(*bits)
        self.message = message


def differs(what: str, expected: str, found: str) -> None:
    """Tell one thing that is not as declared; to be called before an operation's first command.

    Nothing comes of it unless somebody looks for differences.

    Args:
        what: a file, a unit, a package: what a person would look at.
        expected, found: in few words, and without a secret or the hash of one.
    """
    if is_looking():
        _noted[host.name].append((host.current_op_hash, Difference(what, expected, found)))


def unit_differs(unit: str, *, active: bool, enabled: bool, outdated: bool = False) -> None:
    """Tell what of a unit, which should run and boot, is not as it should be."""
    if not active:
        differs(unit, "active", "not active")
    if not enabled:
        differs(unit, "enabled", "not enabled")
    if active and outdated:
        differs(unit, "started after its files last changed", "started before")


def is_looking() -> bool:
    """Tell whether somebody looks for differences of the current host."""
    return host.name in _noted


def look(steps: Callable[[], None]) -> list[Difference]:
    """Have operations say what differs on the current host; none of their commands runs.

    pyinfra asks each operation for its first command, as it does to predict a change. One that
    would act, and has told no difference, is named with that command.

    Args:
        steps: calls the operations.

    Raises:
        PyinfraError: the host could not be read.
    """
    _noted[host.name] = []
    # -y leaves the prediction out.
    state.check_for_changes = True
    try:
        steps()
        return _found()
    finally:
        del _noted[host.name]


def _found() -> list[Difference]:
    found = []
    for op in host.op_hash_order:
        told = [difference for noted, difference in _noted[host.name] if noted == op]
        data = state.get_op_data_for_host(host, op)
        if not told and data.operation_meta.will_change:
            told = _by_command(_name(op), next(data.command_generator()))
        found += told
    outside = [difference for noted, difference in _noted[host.name] if noted is None]
    return list(dict.fromkeys([*found, *outside]))


def _by_command(name: str, command: PyinfraCommand) -> list[Difference]:
    if isinstance(command, Refusal):
        lines = command.message.splitlines()
        return [Difference(name, "nothing in its way", line) for line in lines if line]
    if isinstance(command, FileUploadCommand):
        return [Difference(name, "as it is", f"a run would write {command.dest}")]
    words = " ".join(str(command).split())
    shown = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
    return [Difference(name, "as it is", f"a run would do: {shown}")]


def _name(op: str) -> str:
    return ", ".join(sorted(state.get_op_meta(op).names))
