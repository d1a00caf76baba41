"""door ROOT COMMAND: which engines are behind the door, and which of them gets new requests.

offer RELEASE        the engine joins as second choice: it gets requests while no other is up
prefer RELEASE       new requests go to this one, as long as it is up
forget RELEASE       it is no longer known; what it has in flight goes on
engines              print what is known, the preferred first, a line each

For the door's unit: `prepare` before its start, `sync` after it, `reload PID` for its reload.
For a deploy: `sync` writes missing files; `compare FOLDER` sees whether a key that opens the door
is missing there: then the next reload ends what is in flight, which that key may have begun.

Each change is in ROOT/door first, where a start of the door finds it, and then in the door that
runs, without a reload of it: a reload leaves a second process until the last stream has ended.
"""

import fcntl
import math
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from host.common import starts
from host.common.atomic import replace
from host.common.seat import SOCKET, laid_down, seat_of
from host.door.haproxy import BACKENDS, NOBODY_SERVER, PATIENT, DoorError, Haproxy, server

RUN = Path("/run")
NO_RELEASE = "-"
# Seconds after which a client may ask again, where no start tells when an engine serves.
AGAIN = 10
# Seconds of a hold that follows from starts: a switch may be to a release whose start is cold, and
# clients give up after 600.
HOLD = (300, 590)

# Why clients wait for an engine, where nobody tells.
WHY = "it is starting, being switched, or down"

_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SERVER = re.compile(rf"    server ({_RELEASE.pattern}) unix@/\1/{re.escape(SOCKET)} check ")


class Door:
    """The door of a seat. While it does not run, commands change its files only.

    Args:
        run: the folder of the door's socket; None for that of its unit.
    """

    def __init__(self, root: Path, run: Path | None = None) -> None:
        self._root, self._folder = root, root / "door"
        seat = seat_of(root)
        name = f"door@{seat}" if seat else "door"
        self.unit = f"{name}.service"
        self.haproxy = Haproxy((run or RUN / name) / "master.sock")
        self._map = self._folder / "choice.map"
        self._config = self._folder / "engines.cfg"
        self._link = root / "current"
        self._revoked = self._folder / "revoked"

    def offer(self, release: str) -> None:
        """Have an engine as second choice; as the first one if there is no other."""
        if not _RELEASE.fullmatch(release):
            raise DoorError(f"found {release}; expected a release")
        with self._changed() as (engines, choice):
            engines[release] = None
            if choice["first"] not in engines:
                choice["first"] = release

    def prefer(self, release: str) -> None:
        """Send new requests to an engine that was offered; the others finish theirs."""
        with self._changed() as (engines, choice):
            if release not in engines:
                raise DoorError(f"found no engine {release} behind the door; offer it first")
            choice.update(first=release, hold="no")

    def hold(self) -> None:
        """Send new requests to no engine, until one is preferred or the door is restarted.

        Those that may wait do, the others get 503.
        """
        with self._changed() as (_, choice):
            choice["hold"] = "yes"

    def tell(self, why: str = WHY, again: int = 0) -> None:
        """Have clients that wait in vain be told why, and when to ask again, in seconds.

        Without another reason than ever, that is what starts take. A full disk hinders nothing.
        """
        plain = re.sub(r"[^A-Za-z0-9 .,:/()@_-]", "", " ".join(why.split()))[:200]
        told = {"why": plain} | ({"again": str(again)} if again else {})
        if not told.items() <= self._read()[1].items():
            with self._changed(must_stay=False) as (_, choice):
                choice.update(told)

    def let_wait(self, may: bool) -> None:
        """Say whether clients may wait: else those that do, and that come, are told why at once."""
        with self._locked():
            self.haproxy.let_wait(may)

    @property
    def is_closed(self) -> bool:
        """Tell whether it holds new requests back, whoever serves."""
        return self._read()[1]["hold"] == "yes"

    def forget(self, release: str) -> None:
        """Know an engine no longer; what it has in flight goes on."""
        with self._changed() as (engines, choice):
            engines.pop(release, None)
            if choice["first"] == release:
                choice["first"] = next(iter(engines), NO_RELEASE)

    def busy(self, release: str) -> int:
        """Return how many requests are in flight at an engine; 0 while the door does not run."""
        return self.counts(release)[0]

    def counts(self, release: str) -> tuple[int, int, int]:
        """Return how many requests are in flight at an engine, wait for one, and it has had."""
        with self._locked():
            return self.haproxy.counts(release, held=self.is_closed)

    def engines(self) -> list[str]:
        """Return the releases that are known, the preferred one first."""
        engines, choice = self._read()
        return sorted(engines, key=lambda each: each != choice["first"])

    def compare(self, new: Path) -> None:
        """Note whether a key that opens the door is missing in a folder of new files."""
        if not (new / "keys").exists():
            return
        kept = {line.split()[0] for line in _lines(new / "keys")}
        for line in filter(None, _lines(self._folder / "keys")):
            digest, _, entry = line.partition(" ")
            end = entry.partition(":")[2].partition(":")[0]
            # A line that somebody has damaged may stand for a key that opens the door.
            if digest not in kept and not (end.isdecimal() and int(end) <= time.time()):
                self._revoked.touch()

    def prepare(self) -> None:
        """Have the files that the door reads when it starts; a hold ends here."""
        self._revoked.unlink(missing_ok=True)
        with self._changed() as (_, choice):
            choice.update(hold="no", why=WHY)

    def sync(self) -> None:
        """Have the files, and bring the door that runs to what they say."""
        with self._changed():
            pass

    def reload(self, master: int) -> None:
        """Have the door read its files anew: see `Haproxy.reload`.

        The old process ends at once where a key opens the door no more: see `compare`.
        """
        with self._locked():
            engines, choice = self._read()
            if choice["hold"] == "no" and choice["first"] in engines:
                self.haproxy.leave_to(choice["first"])
            try:
                self.haproxy.reload(master)
            finally:
                self.haproxy.apply(engines, self._map, choice)
            if self._revoked.exists():
                self.haproxy.end_previous()
                self._revoked.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with (self._folder / "lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _changed(self, must_stay: bool = True) -> Iterator[tuple[dict[str, None], dict[str, str]]]:
        with self._locked():
            engines, choice = self._read()
            yield engines, choice
            if choice["why"] == WHY:
                usual = starts.usual(starts.alike(self._root, choice["first"]))
                choice["again"] = f"{10 * math.ceil(usual / 10) or AGAIN}"
            try:
                self._write(engines, choice)
            except OSError:
                if must_stay:
                    raise
            self.haproxy.apply(engines, self._map, choice)

    def _read(self) -> tuple[dict[str, None], dict[str, str]]:
        choice = {"first": NO_RELEASE, "hold": "no", "why": WHY}
        choice |= dict(line.split(" ", 1) for line in _lines(self._map) if " " in line)
        servers = map(_SERVER.match, _lines(self._config))
        engines = {server[1]: None for server in servers if server}
        if not engines and self._link.is_symlink():
            # It knows none yet, or its file is damaged: what should serve is its first.
            choice["first"] = self._link.readlink().name
            engines = {choice["first"]: None}
        return engines, choice

    def _write(self, engines: Collection[str], choice: Mapping[str, str]) -> None:
        rule, hold = f"str(first),map({self._map})", choice["hold"]
        text = "# The engines behind the door. Written and read by `sparkwright-host door`.\n"
        for backend in BACKENDS:
            text += f"backend {backend} from {'patient' if backend == PATIENT else 'door'}\n"
            text += f"    use-server %[{rule}] if {{ {rule} -m found }} "
            text += f"!{{ str(hold),map({self._map}) yes }}\n"
            if backend == PATIENT:
                text += self._recorded(choice["first"])
            for release in engines:
                text += f"    server {server(backend, release, hold)}\n"
        choices = "".join(f"{key} {value}\n" for key, value in choice.items())
        for path, content in ((self._config, text + NOBODY_SERVER), (self._map, choices)):
            if _lines(path) != content.splitlines():
                replace(path, content, durable=True)

    def _recorded(self, release: str) -> str:
        """Return the lines that bound a hold by recorded starts; none where a release is gone."""
        seconds = recorded_hold(self._root, release)
        return f'.if streq("$HOLD",recorded)\n    retries {seconds}\n.endif\n' if seconds else ""


def recorded_hold(root: Path, release: str) -> int:
    """Return the seconds of a hold that follow from recorded starts; 0 where a release is gone."""
    unit = laid_down(root, release)
    if "start_timeout" not in unit:
        return 0
    return starts.bound(root, release, HOLD[0], min(HOLD[1], unit["start_timeout"]))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []


def main(arguments: Sequence[str]) -> int:
    """Do one command. Returns the exit status."""
    match arguments:
        case ["-h" | "--help"]:
            print(__doc__)
        case [root, "engines"]:
            for release in Door(Path(root)).engines():
                print(release)
        case [root, "offer" | "prefer" | "forget" as change, release]:
            getattr(Door(Path(root)), change)(release)
        case [root, "prepare" | "sync" as change]:
            getattr(Door(Path(root)), change)()
        case [root, "compare", folder]:
            Door(Path(root)).compare(Path(folder))
        case [root, "reload", master] if master.isdecimal():
            Door(Path(root)).reload(int(master))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def command() -> NoReturn:
    """Does what the command line says."""
    try:
        sys.exit(main(sys.argv[1:]))
    except (DoorError, OSError) as problem:
        sys.exit(f"door: {problem}")
