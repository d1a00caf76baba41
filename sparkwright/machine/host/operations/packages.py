"""Installs packages by apt, which other programs use, too."""

import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from paramiko import SSHException
from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State, StringCommand
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common import yaml
from sparkwright.common.operations import run_now
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import check
from sparkwright.common.progress import duration_text
from sparkwright.common.terminal import plain, plain_lines
from sparkwright.machine.host.operations.bundle import architecture, bring
from sparkwright.plan.release.bundle import INDEX, PACKAGES
from sparkwright.run.target import target_of

# Seconds between two attempts, and between two lines that name the program waited for.
_PAUSE, _SAY = 5, 30
# Lines of apt's that are shown: the first names the cause, the rest its consequences.
_SHOWN = 3
_ATTEMPT = (HOST_FILES / "machine" / "packages" / "install.sh").read_text("utf-8")
# Where an archive's lists are: of a suite's component, or of an archive without suites.
_LISTS = re.compile(
    r"/(\d+)/(?:dists/([\w./+-]+)/([\w+-]+)/binary-[\w-]+/Packages|((?!dists/)[\w./+-]+/)?Packages)"
)
# Errors of apt and dpkg, and their remedies; the first match counts.
_REMEDIES = Path(__file__).with_name("remedies.yaml")
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
    return FunctionCommand(_install, (package, unless, new_source, "install"), {})


def system_apt(doing: str, packages: Iterable[str]) -> FunctionCommand:
    """Return the command by which apt does that with the system's packages: see install.sh."""
    return FunctionCommand(_install, (" ".join(packages), "", False, doing), {})


def _install(state: State, host: Host, package: str, unless: str, anew: bool, doing: str) -> bool:
    """Run apt; print why it failed, and return whether it succeeded."""
    undone = f"{package} is not installed" if doing == "install" else f"apt did not {doing} them"
    try:
        if unless and run_now(host, StringCommand(unless))[0]:
            return True
        why = _patiently(host, package, anew, doing)
        problem = why and f"{undone}: {why}"
    except (OSError, EOFError, SSHException):
        problem = _LOST
    except PyinfraError as error:
        problem = str(error)
    except ValueError as error:
        problem = f"{undone}: {error}"
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


def _patiently(host: Host, package: str, new_source: bool, doing: str) -> str | None:
    """Try until no other program holds apt's locks; return why it failed, None if it did not."""
    own = target_of(host)
    patience = own.settings.apt_patience_seconds
    sources = _bundled(host, package) if doing == "install" else []
    begun, last_line = time.monotonic(), -float(_SAY)
    while True:
        is_due = doing == "install" and (new_source or host.name not in _updated)
        words = {"package": package, "doing": doing, "state": f"{own.root}/state"}
        words |= {"update": "yes" if is_due or sources else "no", "sources": "\n".join(sources)}
        script = attempt(words, own.settings.proxy_variables)
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
            return failure(found["failed"]) if "failed" in found else None
        held, waited = holder(found["held"]), time.monotonic() - begun
        bound = duration_text(patience)
        if waited >= patience:
            return (
                f"{held}, still after {bound}. Let that end (on a new Spark it is the first update "
                "of the system: `systemctl list-jobs`, DGX Dashboard), and run again; to wait "
                "longer, set apt_patience_seconds in the group data"
            )
        if waited - last_line >= _SAY:
            last_line, since = waited, f"{held}, for {duration_text(waited)}"
            host.log(plain(f"waiting for apt: {since} (up to {bound}: apt_patience_seconds)"))
        time.sleep(min(_PAUSE, patience - waited))


def attempt(words: Mapping[str, str], variables: Mapping[str, str]) -> str:
    """Return the POSIX shell script of one attempt; it does not wait for locks, and exits 0.

    Args:
        words: what install.sh begins with.
        variables: the environment of apt, such as the proxy's; a proxy in the owner's own
            configuration of apt comes before it.
    """
    lines = [f"{name}={shlex.quote(value)}" for name, value in words.items()]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join([*lines, _ATTEMPT])


def parse_attempt(output: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the sections of an attempt's output; ValueError without its end."""
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in output:
        if line.startswith("@@"):
            section = found.setdefault(line.removeprefix("@@"), [])
        else:
            section.append(line)
    if not {"done", "held", "failed"} & found.keys():
        raise ValueError(f"apt's exit status is unknown: found {', '.join(found) or 'nothing'}")
    return {name: lines if name == "held" else lines[:_SHOWN] for name, lines in found.items()}


def holder(lines: Sequence[str]) -> str:
    """Return who holds apt's lock, by the lines of the section about it."""
    lock, pid, program, *unit = lines
    known = ", ".join(filter(None, (pid and f"pid {pid}", *unit)))
    return f"{lock} is held by {program}{f' ({known})' if known else ''}"


def failure(failed: Sequence[str]) -> str:
    """Return the error of apt, with the remedy if it is known."""
    errors = " ".join(failed) or "apt does not say why"
    known: dict[str, str] = yaml.load(_REMEDIES)
    remedy = next((each for sign, each in known.items() if re.search(sign, errors)), None)
    return f"{errors}. {remedy or 'Then run again'}."


def apt_sources(paths: Iterable[str], folder: str, place: str) -> list[str]:
    """Return the lines of apt's sources.list for the archives in a folder of a bundle at a place.

    apt copies what it checks, as others may be able to write there.
    """
    components: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        if found := _LISTS.fullmatch(path.removeprefix(folder)):
            number, suite, component, flat = found.groups()
            names = components.setdefault((number, suite or flat or "./"), [])
            names += [component] if component else []
    return [
        " ".join(["deb", f"copy:{place}/{folder}/{number}", suite, *names])
        for (number, suite), names in components.items()
    ]
