"""Packages of the distribution: installed and removed by apt, which others use as well."""

import time
from collections.abc import Callable, Sequence

from paramiko import SSHException
from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State, StringCommand

from sparkwright.common.errors import PlanError
from sparkwright.common.operations import run_now
from sparkwright.common.placed import check
from sparkwright.common.terminal import plain, plain_lines
from sparkwright.host.packages import (
    Attempt,
    failure,
    impatient,
    install_script,
    parse_attempt,
    purge_script,
    waiting,
)
from sparkwright.run.host_data import settings

# Seconds between two attempts, and between two lines that say who is waited for.
_PAUSE, _SAY = 5, 30
_LOST = "The Spark stopped responding. What apt has begun goes on there: run again to wait for it."
# Whose lists of packages this run has fetched: once is enough.
_updated: set[str] = set()


def install(package: str, *, unless: str = "", new_source: bool = False) -> FunctionCommand:
    """Return the command that installs a package, however long others use apt.

    Lists are fetched once a run. A source that fails is named; whether that matters, the
    installation shows.

    Args:
        package: its name.
        unless: a shell command by whose success it is not needed.
        new_source: the lists from before this command do not know it.
    """
    check(packages=[package])
    return FunctionCommand(_install, (package, unless, new_source), {})


def purge(packages: Sequence[str]) -> FunctionCommand:
    """Return the command that removes packages and their settings, however long others use apt.

    Args:
        packages: their names; at least one.
    """
    return FunctionCommand(_purge, (packages,), {})


def _install(state: State, host: Host, package: str, unless: str, new_source: bool) -> bool:
    def attempt() -> Attempt:
        nonlocal new_source
        update = new_source or host.name not in _updated
        made = _attempt(
            host, install_script(package, f"{settings(host).root}/state", update=update)
        )
        if made.updated:
            _updated.add(host.name)
            new_source = False
        return made

    return _told(host, f"{package} is not installed", attempt, unless)


def _purge(state: State, host: Host, packages: Sequence[str]) -> bool:
    undone = f"{', '.join(packages)}: not removed"
    return _told(host, undone, lambda: _attempt(host, purge_script(packages)))


def _told(host: Host, undone: str, attempt: Callable[[], Attempt], unless: str = "") -> bool:
    """Have apt do something, and say what stood in the way."""
    try:
        if unless and _run(host, unless)[0]:
            return True
        problem = _patiently(host, undone, attempt)
    except (OSError, EOFError, SSHException):
        problem = _LOST
    except PlanError as error:
        problem = str(error)
    except ValueError as error:
        problem = f"{undone}: {error}"
    if problem:
        host.log_styled(plain_lines(problem), fg="red", log_func=logger.error)
    return not problem


def _patiently(host: Host, undone: str, attempt: Callable[[], Attempt]) -> str | None:
    """Try until nobody else holds apt; return what stood in the way."""
    patience = settings(host).apt_patience_seconds
    begun, said = time.monotonic(), -float(_SAY)
    while True:
        made = attempt()
        for line in made.complaints:
            told = f"a source of packages failed: {line}"
            host.log_styled(plain(told), fg="yellow", log_func=logger.warning)
        if made.completed:
            host.log("an installation that had been cut off was completed (dpkg --configure -a)")
        if made.held is None:
            return None if made.done else failure(undone, made.failed)
        waited = time.monotonic() - begun
        if waited >= patience:
            return impatient(undone, made.held, patience)
        if waited - said >= _SAY:
            said = waited
            host.log(plain(waiting(made.held, waited, patience)))
        time.sleep(min(_PAUSE, patience - waited))


def _attempt(host: Host, script: str) -> Attempt:
    return parse_attempt(_run(host, script)[1])


def _run(host: Host, script: str) -> tuple[bool, Sequence[str]]:
    done, output = run_now(host, StringCommand(script))
    return done, output.stdout_lines
