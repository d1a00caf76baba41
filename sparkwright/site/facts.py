"""A first look at a machine that is to become a Spark of a site, as pyinfra reaches it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyinfra import logger
from pyinfra.api import Config, Host, Inventory, State, StringCommand
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.context import ctx_state

from sparkwright.host.survey import Survey, parse_survey, survey_script
from sparkwright.run.lost import Login, cause
from sparkwright.run.upstream import carry
from sparkwright.site.site import NewSpark

# Seconds for a connection, and for what is read through it.
_CONNECT, _READ = 8, 60


@dataclass(frozen=True)
class Look:
    """The result of a look at a machine.

    Attributes:
        survey: The machine; None where it could not be read.
        trouble: Why not, with the line that helps; "" where it could.
    """

    survey: Survey | None = None
    trouble: str = ""


def look(spark: NewSpark, root: str = "/opt/qwen36") -> Look:
    """Log in to a machine, try sudo, and read what the preflight of a run reads."""
    name = "@local" if spark.is_local else spark.address
    data = (
        {} if spark.is_local else {**spark.connection, "ssh_strict_host_key_checking": "accept-new"}
    )
    state = State(Inventory(([(name, data)], {})), Config(CONNECT_TIMEOUT=_CONNECT))
    host = state.inventory.get_host(name)
    level = logger.level
    # Its errors are explained below.
    logger.setLevel(logging.CRITICAL)
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    carry()
    try:
        with ctx_state.use(state):
            return _read(host, spark, root)
    finally:
        logger.setLevel(level)


def _read(host: Host, spark: NewSpark, root: str) -> Look:
    try:
        host.connect(raise_exceptions=True)
    except (ConnectError, PyinfraError) as error:
        return Look(trouble=cause(str(error), _login(spark)))
    try:
        if not _run(host, "sudo -n true 2>/dev/null")[0]:
            return Look(trouble=_sudo(host, spark))
        script = survey_script(root=root, ports=(), images=(), folders=())
        worked, lines = _run(host, "sudo -n sh -s", script)
        return Look(parse_survey(lines)) if worked else Look(trouble="it could not be read")
    except ValueError as error:
        return Look(trouble=str(error))
    finally:
        host.disconnect()


def _login(spark: NewSpark) -> Login:
    return Login(spark.address, spark.user, spark.port or 22, spark.key)


def _run(host: Host, command: str, text: str = "") -> tuple[bool, list[str]]:
    worked, output = host.run_shell_command(
        StringCommand(command), print_output=False, _timeout=_READ, _stdin=text
    )
    return worked, output.stdout_lines


def _sudo(host: Host, spark: NewSpark) -> str:
    if not _run(host, "command -v sudo")[0]:
        return "found no sudo; expected it. As root on the machine: apt-get install sudo"
    who = spark.user or "$USER"
    command = f"echo '{who} ALL=(ALL) NOPASSWD: ALL' | sudo tee /etc/sudoers.d/sparkwright"
    start = "" if spark.is_local else f"ssh -t {_login(spark)} "
    return (
        "sudo asks for a password; expected none for this user, as runs have nobody to ask. "
        f"Paste this, which asks for it once:\n    {start}{_quoted(command, bool(start))}"
    )


def _quoted(command: str, remote: bool) -> str:
    return f'"{command}"' if remote else command
