"""Compiled code: what one engine has compiled begins the caches of others of its release.

Only the first start of a release at a site compiles, for minutes. Its archive, made on the Spark
before a client reached the engine, is fetched by the run that made the switch, and sent by later
runs to Sparks that lack it; or a bundle has it. On a Spark the engine's own user unpacks it, within
a container (sparkwright/plan/release/release.py).
"""

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

from pyinfra import host
from pyinfra.api import (
    FileDownloadCommand,
    FunctionCommand,
    Host,
    QuoteString,
    State,
    StringCommand,
    operation,
)
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.operations import differs
from sparkwright.common.part import Ask, Part
from sparkwright.machine.host.operations.bundle import send
from sparkwright.plan.release.bundle import (
    COMPILED,
    Bundle,
    BundledFile,
    BundleIndex,
    archives,
    file_hash,
)
from sparkwright.plan.release.lock import Lock
from sparkwright.plan.release.release import MOST_COMPILED, Release
from sparkwright.run.state import read, read_now
from sparkwright.run.target import target

# Archives that stay on this machine, the newest ones.
_KEPT = 8
# Bytes that stay free on its disk.
_RESERVE = 1 << 30


class Compiled(Part):
    """The bytes of a release's archive, None without one; and the release that is current."""

    part: ClassVar = "artifacts.compiled"

    size: int | None
    current: str


def ask_archive(served: Release) -> Ask[Compiled]:
    """Return the ask for the archive of a release."""
    return Compiled.ask(path=served.place.compiled(served.id), link=f"{served.place}/current")


@operation()
def lent(served: Release) -> Generator[PyinfraCommand]:
    """Have the archive of a release that does not serve yet, where there is one."""
    name, place = f"{COMPILED}/{served.id}.tar", served.place.compiled(served.id)
    found = read(host, ask_archive(served))
    if found.size is not None or found.current == served.id or not (source := _source(name)):
        host.noop("it has its own, or there is none")
        return
    differs(place, "what another Spark has compiled", "absent")
    yield send(source, [name])
    sent = QuoteString(f"{served.root}/bundle/{name}")
    yield StringCommand("install -d -m 700", QuoteString(served.place.archives))
    yield StringCommand("mv", sent, QuoteString(place))


def _source(name: str) -> Bundle | None:
    """Return the bundle, or this machine's folder as one, that has an archive; None without."""
    bundle, file = target().bundle, archives().parent / name
    if bundle and name in bundle.index.files:
        return bundle
    if not file.is_file():
        return None
    files = {name: BundledFile(size=file.stat().st_size, sha256=file_hash(file))}
    return Bundle(archives().parent, BundleIndex(version=1, lock=Lock(), images={}, files=files))


def collect(served: Release) -> Generator[PyinfraCommand]:
    """Yield what fetches the archive of a release that a switch has just made serve."""
    folder = archives()
    file = folder / f"{served.id}.tar"
    if served.ranks.nodes > 1 or file.exists():
        return
    size = read_now(host, ask_archive(served)).size
    if size is None or size > MOST_COMPILED:
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if shutil.disk_usage(folder).free < size + _RESERVE:
        return
    # Of two Sparks at once each has its own.
    part = folder / f"{host.name}.part"
    yield FileDownloadCommand(served.place.compiled(served.id), str(part))
    yield FunctionCommand(_take, (part, file), {})


def _take(state: State, host: Host, part: Path, file: Path) -> bool:
    part.replace(file)
    known = sorted(file.parent.glob("*.tar"), key=lambda each: each.stat().st_mtime)
    for each in known[:-_KEPT]:
        each.unlink(missing_ok=True)
    return True
