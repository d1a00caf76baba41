"""A first look at a machine that is to become a Spark of a site, as pyinfra reaches it."""

from __future__ import annotations

import logging

from pyinfra import logger
from pyinfra.api import Config, Host, Inventory, State, StringCommand
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.context import ctx_state

from sparkwright.declared.fleet.fleet import Spark
from sparkwright.machine.host.survey import Survey
from sparkwright.plan.release.programs import state_program
from sparkwright.run.ssh import Login, cause
from sparkwright.run.state import RUN
from sparkwright.run.upstream import carry

# Seconds for a connection, and for what is read through it.
_CONNECT, _READ = 8, 90


def look(spark: Spark, root: str = "/opt/qwen36") -> Survey | str:
    """Return what a preflight reads of a machine; or why it cannot be, with the line that helps."""
    name = "@local" if spark.local else f"{spark.ssh_hostname}"
    data = {"ssh_strict_host_key_checking": "accept-new", **spark.connection}
    state = State(Inventory(([(name, data)], {})), Config(CONNECT_TIMEOUT=_CONNECT))
    host = state.inventory.get_host(name)
    level = logger.level
    # Its errors are explained below.
    logger.setLevel(logging.CRITICAL)
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    carry()
    try:
        with ctx_state.use(state):
            host.connect(raise_exceptions=True)
            return _read(host, spark, root)
    except (ConnectError, PyinfraError) as error:
        return cause(str(error), _login(spark))
    except ValueError as error:
        return str(error)
    finally:
        logger.setLevel(level)


def _read(host: Host, spark: Spark, root: str) -> Survey | str:
    try:
        if not _run(host, "sudo -n true 2>/dev/null")[0]:
            return _sudo(host, spark)
        ask = Survey.ask(root=root)
        program = state_program(frozenset({Survey.part}))
        worked, lines = _run(host, f"sudo -n {RUN}", f"{program}\n[{ask.key}]")
        return ask.value(lines[0]) if worked and lines else "it could not be read"
    finally:
        host.disconnect()


def _login(spark: Spark) -> Login:
    return Login(f"{spark.ssh_hostname}", spark.ssh_user, spark.ssh_port, spark.ssh_key)


def _run(host: Host, command: str, text: str = "") -> tuple[bool, list[str]]:
    worked, output = host.run_shell_command(
        StringCommand(command), print_output=False, _timeout=_READ, _stdin=text
    )
    return worked, output.stdout_lines


def _sudo(host: Host, spark: Spark) -> str:
    if not _run(host, "command -v sudo")[0]:
        return "found no sudo; expected it. As root on the machine: apt-get install sudo"
    who = spark.ssh_user or "$USER"
    line = f"echo '{who} ALL=(ALL) NOPASSWD: ALL' | sudo tee /etc/sudoers.d/sparkwright"
    return (
        "sudo asks for a password; expected none for this user, as runs have nobody to ask. "
        "Paste this, which asks for it once:\n    "
        + (line if spark.local else f'ssh -t {_login(spark)} "{line}"')
    )
