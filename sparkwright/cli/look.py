"""A first look at a machine that is to become a Spark of a site, as pyinfra reaches it."""

from __future__ import annotations

import logging

from pyinfra import logger
from pyinfra.api import Config, Inventory, State
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.context import ctx_state

from sparkwright.declared.fleet.fleet import Spark
from sparkwright.declared.fleet.settings import Settings
from sparkwright.machine.host.survey import Survey
from sparkwright.run.ssh import Login, cause
from sparkwright.run.state import answers, check_sudo
from sparkwright.run.upstream import carry

# Seconds for a connection, and for what is read through it.
_CONNECT, _READ = 8, 90


def look(spark: Spark) -> Survey | str:
    """Return what a preflight reads of a machine; or why it cannot be, with what helps."""
    name = "@local" if spark.local else f"{spark.ssh_hostname}"
    data = {"ssh_strict_host_key_checking": "accept-new", **spark.connection}
    state = State(Inventory(([(name, data)], {})), Config(CONNECT_TIMEOUT=_CONNECT))
    host = state.inventory.get_host(name)
    level = logger.level
    # Its errors are explained below.
    logger.setLevel(logging.CRITICAL)
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    carry()
    how = {"_sudo": True, "_timeout": _READ, "_ignore_errors": True}
    try:
        with ctx_state.use(state):
            host.connect(raise_exceptions=True)
            check_sudo(host)
            ask = Survey.ask(root=Settings().root)
            return ask.value(*answers(host, ask, **how))
    except ConnectError as error:
        login = Login(f"{spark.ssh_hostname}", spark.ssh_user, spark.ssh_port, spark.ssh_key)
        return cause(str(error), login)
    except (PyinfraError, ValueError) as error:
        return str(error).removeprefix(f"{name}: ")
    finally:
        host.disconnect()
        logger.setLevel(level)
