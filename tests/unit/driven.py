"""Operations and facts without pyinfra's command line: on this machine, or on a fake host."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from unittest.mock import patch

from pyinfra.api import Config, Host, Inventory, State
from pyinfra.api.connect import connect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operation import OperationMeta, add_op
from pyinfra.api.operations import run_ops
from pyinfra.connectors.util import CommandOutput, OutputLine
from pyinfra.context import ctx_host, ctx_state

from sparkwright.run.state import RUN


@dataclass
class Driven:
    """One host and what was done to it.

    Attributes:
        name: the host, as in an inventory.
        data: its data.
        commands: each shell command as it ran, secrets unmasked, with its stdin.
        state: what its parts are, by their names, or functions of what is asked; None for a host
            on which the program that reads them runs.
        here: this process reads them, which takes less time than that program.
        asked: the parts that each command read.
        peers: other hosts of the run.
    """

    name: str
    data: dict[str, Any]
    commands: list[tuple[str, Any]] = field(default_factory=list)
    state: Mapping[str, Any] | None = None
    asked: list[list[str]] = field(default_factory=list)
    peers: tuple["Driven", ...] = ()
    here: bool = False

    def run(self, operation: Callable[..., Any], **arguments: Any) -> OperationMeta:
        """Run one operation as `pyinfra -y` does, and return its result."""
        state, host = self._connect(check_for_changes=False)
        results: dict[Host, OperationMeta] = add_op(state, operation, **arguments)
        # With one host, its failure is the end of the run; the result says so as well.
        with suppress(PyinfraError):
            run_ops(state)
        return results[host]

    def predicts_change(self, operation: Callable[..., Any], **arguments: Any) -> bool:
        """Whether `pyinfra --dry` would show a change; nothing but facts runs."""
        state, host = self._connect(check_for_changes=True)
        results: dict[Host, OperationMeta] = add_op(state, operation, **arguments)
        return results[host].will_change

    @contextmanager
    def current(self) -> Iterator[Host]:
        """Make the host the current one, as in a deploy."""
        state, host = self._connect(check_for_changes=True)
        with ctx_state.use(state), ctx_host.use(host):
            yield host

    def scripts(self) -> list[str]:
        """The shell commands without their stdin."""
        return [command for command, _ in self.commands]

    def _says(self, part: str, asked: Mapping[str, Any]) -> str:
        assert self.state is not None
        if part not in self.state:
            return json.dumps({"unknown": f"the test has no part {part}"})
        value = self.state[part]
        return json.dumps({"known": value(**asked) if callable(value) else value})

    def _connect(self, *, check_for_changes: bool) -> tuple[State, Host]:
        everyone = (self, *self.peers)
        inventory = Inventory(([(each.name, each.data) for each in everyone], {}))
        state = State(inventory, Config(), check_for_changes=check_for_changes)
        connect_all(state)
        for each in everyone:
            each._listen(inventory.get_host(each.name))
        return state, inventory.get_host(self.name)

    def _listen(self, host: Host) -> None:
        connector: Any = host.connector
        original = connector.run_shell_command

        def run_shell_command(command: Any, **arguments: Any) -> Any:
            raw = command if isinstance(command, str) else command.get_raw_value()
            if raw == RUN and (self.here or self.state is not None):
                asks = json.loads(arguments["_stdin"][1])
                self.asked.append([part for part, _, _ in asks])
                if self.here:
                    self.commands.append((raw, None))
                    said = _read(asks)
                else:
                    said = [self._says(part, asked) for part, asked, _ in asks]
                return True, CommandOutput([OutputLine("stdout", line) for line in said])
            self.commands.append((raw, arguments.get("_stdin")))
            return original(command, **arguments)

        connector.run_shell_command = run_shell_command


def _read(asks: list[Any]) -> list[str]:
    from host.state import readers
    from host.state import state as program

    for module in [module for name, module in sys.modules.items() if name.startswith("host.state")]:
        for name, known in [*vars(module).items()]:
            # What an earlier run has read once is not known to this one.
            if getattr(getattr(known, "__code__", None), "co_name", "") == "shared":
                setattr(module, name, readers.once(known.__wrapped__))
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    with patch.object(readers, "_ENVIRONMENT", environment):
        return program.answers(asks)


def this_machine(**data: Any) -> Driven:
    """Drive this machine by pyinfra's @local connector."""
    return Driven("@local", data)


def here(**data: Any) -> Driven:
    """Drive this machine, whose parts this process reads."""
    return Driven("@local", data, here=True)


def fake_host(
    responses: Mapping[Any, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    **data: Any,
) -> Driven:
    """Drive a host that answers as `responses` says (part of a command -> output), else nothing.

    Commands of `failing` fail, as they do on a host; apt installs what it is asked for.
    """
    answers = {
        **(responses or {}),
        re.compile(">&2; exit 1$"): {"success": False},
        re.compile("^package="): "@@done",
    }
    settings = {
        "fake_delay": 0,
        "fake_delay_jitter": 0,
        "fake_responses": answers,
        "apt_patience_seconds": 0,
    }
    parts = {"placed": placed(), **(state or {})}
    return Driven("@fake/spark", settings | data, state=parts)


def placed(
    files: Mapping[str, Mapping[str, Any]] | None = None,
    units: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the part of what is placed on a host.

    Args:
        units: by name, words of "loaded active enabled unread", and when it started.
    """
    return {
        "files": dict(files or {}),
        "units": {name: _unit(words.split()) for name, words in (units or {}).items()},
        "parameters": dict(parameters or {}),
        "users": [],
    }


def _unit(words: list[str]) -> dict[str, Any]:
    return {
        "load": "loaded" if "loaded" in words else "not-found",
        "active": "active" if "active" in words else "inactive",
        "file": "enabled" if "enabled" in words else "",
        "path": "/unit" if "loaded" in words else "",
        "outdated": "unread" in words,
        "status": "",
        "started": next((int(word) for word in words if word.isdecimal()), 0),
        "wanted": "enabled" in words,
    }


def file_of(text: str, mode: str = "644", **other: Any) -> dict[str, Any]:
    """Return the state of a file that root owns."""
    digest = sha256(text.encode()).hexdigest()
    own = {"kind": "file", "user": "root", "group": "root", "mode": mode, "detail": digest}
    return own | other
