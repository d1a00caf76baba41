"""Operations and facts without pyinfra's command line: on this machine, or on a fake host."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pyinfra.api import Config, Host, Inventory, State
from pyinfra.api.connect import connect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operation import OperationMeta, add_op
from pyinfra.api.operations import run_ops
from pyinfra.context import ctx_host, ctx_state


@dataclass
class Driven:
    """One host and what was done to it.

    Attributes:
        commands: each shell command as it ran, secrets unmasked, with its stdin.
    """

    host: Host
    commands: list[tuple[str, Any]] = field(default_factory=list)

    def run(self, operation: Callable[..., Any], **arguments: Any) -> OperationMeta:
        """Run one operation as `pyinfra -y` does, and return its result."""
        state = State(self.host.inventory, Config(), check_for_changes=False)
        connect_all(state)
        record(self)
        results: dict[Host, OperationMeta] = add_op(state, operation, **arguments)
        # With one host, its failure is the end of the run; the result says so as well.
        with suppress(PyinfraError):
            run_ops(state)
        return results[self.host]

    def predicts_change(self, operation: Callable[..., Any], **arguments: Any) -> bool:
        """Whether `pyinfra --dry` would show a change; nothing but facts runs."""
        with in_context(self):
            return bool(operation(**arguments).will_change)

    def scripts(self) -> list[str]:
        """The shell commands without their stdin."""
        return [command for command, _ in self.commands]


def this_machine(**data: Any) -> Driven:
    """Drive this machine by pyinfra's @local connector."""
    return _driven("@local", data)


def fake_host(responses: Mapping[Any, Any] | None = None, **data: Any) -> Driven:
    """Drive a host that answers as `responses` says (part of a command -> output), else nothing."""
    settings = {"fake_delay": 0, "fake_delay_jitter": 0, "fake_responses": responses or {}}
    return _driven("@fake/spark", settings | data)


def _driven(name: str, data: dict[str, Any]) -> Driven:
    inventory = Inventory(([name], data))
    return Driven(inventory.get_host(name))


def record(driven: Driven) -> None:
    """Note each shell command that goes to the host."""
    connector: Any = driven.host.connector
    original = connector.run_shell_command

    def run_shell_command(command: Any, **arguments: Any) -> Any:
        raw = command if isinstance(command, str) else command.get_raw_value()
        driven.commands.append((raw, arguments.get("_stdin")))
        return original(command, **arguments)

    connector.run_shell_command = run_shell_command


@contextmanager
def in_context(driven: Driven) -> Iterator[Host]:
    """Make the host the current one, as in a deploy."""
    state = State(driven.host.inventory, Config())
    connect_all(state)
    record(driven)
    with ctx_state.use(state), ctx_host.use(driven.host):
        yield driven.host
