"""Installs packages by apt, which other programs use, too."""

import time

from paramiko import SSHException
from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State, StringCommand
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.operations import run_now
from sparkwright.common.placed import check
from sparkwright.common.terminal import plain, plain_lines
from sparkwright.machine.host.operations.bundle import architecture, bring
from sparkwright.machine.host.packages import (
    apt_sources,
    failure,
    holder,
    impatient,
    install_script,
    parse_attempt,
    waiting,
)
from sparkwright.plan.release.bundle import INDEX, PACKAGES
from sparkwright.run.target import target_of

# Seconds between two attempts, and between two lines that name the program waited for.
_PAUSE, _SAY = 5, 30
_LOST = "The Spark stopped responding. What apt has begun goes on there: run again to wait for it."
# The hosts whose package lists this run has fetched: once is enough.
_updated: set[str] = set()


def install(package: str, *, unless: str = "", new_source: bool = False) -> FunctionCommand:
    """Return the command that installs a package, and waits while another program uses apt.

    Package lists are fetched once a run. A source that fails is only reported: the installation
    shows whether it was needed.

    Args:
        unless: a shell command that succeeds where the package is not needed.
        new_source: fetch the lists anew, as a source was added.
    """
    check(packages=[package])
    return FunctionCommand(_install, (package, unless, new_source), {})


def _install(state: State, host: Host, package: str, unless: str, new_source: bool) -> bool:
    """Run apt; print why it failed, and return whether it succeeded."""
    try:
        if unless and run_now(host, StringCommand(unless))[0]:
            return True
        problem = _patiently(host, package, new_source)
    except (OSError, EOFError, SSHException):
        problem = _LOST
    except PyinfraError as error:
        problem = str(error)
    except ValueError as error:
        problem = f"{package} is not installed: {error}"
    if problem:
        host.log_styled(plain_lines(problem), fg="red", log_func=logger.error)
    return not problem


def _bundled(host: Host, package: str) -> list[str]:
    """Have a bundle's packages on a host, and return apt's sources; none without a bundle."""
    own = target_of(host)
    if own.bundle is None:
        return []
    folder = f"{PACKAGES}/{architecture(host)}"
    paths = own.bundle.below(folder)
    if not any(f"/{package}_" in path for path in paths):
        raise PyinfraError(
            f"{own.bundle.folder / INDEX}: files: found no {folder}/…/{package}_*.deb; expected "
            f"it, as {package} is needed: {own.bundle.remedy}"
        )
    bring(host, own.bundle, paths)
    return apt_sources(paths, folder, f"{own.root}/bundle")


def _patiently(host: Host, package: str, new_source: bool) -> str | None:
    """Try until no other program holds apt's locks; return why it failed, None if it did not."""
    own = target_of(host)
    patience, sources = own.settings.apt_patience_seconds, _bundled(host, package)
    begun, last_line = time.monotonic(), -float(_SAY)
    while True:
        script = install_script(
            package,
            f"{own.root}/state",
            update=new_source or host.name not in _updated,
            sources=sources,
            variables=own.settings.proxy_variables,
        )
        found = parse_attempt(run_now(host, StringCommand(script))[1].stdout_lines)
        if "updated" in found:
            _updated.add(host.name)
            new_source = False
        for line in found.get("updated", ()):
            warning = plain(f"a source of packages failed: {line}")
            host.log_styled(warning, fg="yellow", log_func=logger.warning)
        if "completed" in found:
            host.log("an installation that had been cut off was completed (dpkg --configure -a)")
        if "held" not in found:
            return failure(package, found["failed"]) if "failed" in found else None
        held, waited = holder(found["held"]), time.monotonic() - begun
        if waited >= patience:
            return impatient(package, held, patience)
        if waited - last_line >= _SAY:
            last_line = waited
            host.log(plain(waiting(held, waited, patience)))
        time.sleep(min(_PAUSE, patience - waited))
