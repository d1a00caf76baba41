"""One attempt to install a package by apt, which other programs use, too."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sparkwright.common import yaml
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.progress import duration_text

# Lines of apt's that are shown: the first names the cause, the rest its consequences.
_SHOWN = 3

_ATTEMPT = (HOST_FILES / "machine" / "packages" / "install.sh").read_text("utf-8")

# Where an archive's lists are: of a suite's component, or of an archive without suites.
_LISTS = re.compile(
    r"/(\d+)/(?:dists/([\w./+-]+)/([\w+-]+)/binary-[\w-]+/Packages|((?!dists/)[\w./+-]+/)?Packages)"
)

# Errors of apt and dpkg, and their remedies; the first match counts.
_REMEDIES = Path(__file__).with_name("remedies.yaml")


def install_script(
    package: str,
    state: str,
    *,
    update: bool,
    sources: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> str:
    """Return the POSIX shell script of one attempt; it does not wait for locks, and exits 0.

    Args:
        state: the folder in which the package is written down as installed by a run.
        sources: lines of apt's sources.list which it is to use instead of its own; none for these.
        variables: the environment of apt, such as the proxy's; a proxy in the owner's own
            configuration of apt comes before it.
    """
    words = {
        "package": package,
        "state": state,
        "update": "yes" if update or sources else "no",
        "sources": "\n".join(sources),
    }
    exported = (variables or {}).items()
    lines = [f"{name}={shlex.quote(value)}" for name, value in words.items()]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in exported]
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


def waiting(held: str, seconds: float, patience: int) -> str:
    """Return the message while a run waits for apt's lock, up to so many seconds."""
    return (
        f"waiting for apt: {held}, for {duration_text(seconds)} "
        f"(up to {duration_text(patience)}: apt_patience_seconds)"
    )


def impatient(package: str, held: str, patience: int) -> str:
    """Return the error that apt's lock did not become free within so many seconds."""
    return (
        f"{package} is not installed: {held}, still after {duration_text(patience)}. Let that end "
        "(on a new Spark it is the first update of the system: `systemctl list-jobs`, DGX "
        "Dashboard), and run again; to wait longer, set apt_patience_seconds in the group data"
    )


def failure(package: str, failed: Sequence[str]) -> str:
    """Return the error that apt failed, with the remedy if it is known."""
    errors = " ".join(failed) or "apt does not say why"
    known: dict[str, str] = yaml.load(_REMEDIES)
    remedy = next((each for sign, each in known.items() if re.search(sign, errors)), None)
    return f"{package} is not installed: {errors}. {remedy or 'Then run again'}."


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
