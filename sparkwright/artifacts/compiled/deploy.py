"""Compiled code: what the first engine of a release has compiled begins the caches of others.

Its archive, made on the Spark before a client reached the engine, is fetched by the run that made
the switch, and sent by later runs to Sparks that are new to the release; or a bundle has it. There
the engine's own user unpacks it, in a container (sparkwright/plan/release/release.py).
"""

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, operation
from pyinfra.api.command import FileDownloadCommand, PyinfraCommand

from sparkwright.common.operations import differs
from sparkwright.common.part import Ask, Part
from sparkwright.machine.host.operations.bundle import send
from sparkwright.plan.release.bundle import COMPILED, archives, own_archive
from sparkwright.plan.release.release import MOST_COMPILED, Release
from sparkwright.run.state import read, read_now
from sparkwright.run.target import target

# Archives that stay on this machine, the newest ones; and bytes that stay free on its disk.
_KEPT, _RESERVE = 8, 1 << 30


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
    name, place, bundle = f"{COMPILED}/{served.id}.tar", served.place.compiled(served.id), None
    found = read(host, ask_archive(served))
    if found.size is None and found.current != served.id:
        bundle = target().bundle
        bundle = bundle if bundle and name in bundle.index.files else own_archive(name)
    if bundle is None:
        host.noop("it has its own, or there is none")
        return
    differs(place, "what another Spark has compiled", "absent")
    yield send(bundle, [name])
    sent = QuoteString(f"{served.root}/bundle/{name}")
    yield StringCommand("install -D -m 600", sent, QuoteString(place), "&& rm", sent)


def collect(served: Release) -> Generator[PyinfraCommand]:
    """Yield what fetches the archive of a release that a switch has just made serve."""
    file = archives() / f"{served.id}.tar"
    if served.ranks.nodes > 1 or file.exists():
        return
    size = read_now(host, ask_archive(served)).size
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if size and size <= min(MOST_COMPILED, shutil.disk_usage(file.parent).free - _RESERVE):
        # Of two Sparks at once each has its own.
        part = file.with_name(f"{host.name}.part")
        yield FileDownloadCommand(served.place.compiled(served.id), str(part))
        yield FunctionCommand(_take, (part, file), {})


def _take(state: State, host: Host, part: Path, file: Path) -> bool:
    part.replace(file)
    known = sorted(file.parent.glob("*.tar"), key=lambda each: each.stat().st_mtime)
    for each in known[:-_KEPT]:
        each.unlink(missing_ok=True)
    return True
