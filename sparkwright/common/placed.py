"""The table of all that Sparkwright places on a host.

Layout makes what stands here, drift compares it, `remove` takes it, and a recipe's weights do not
get its names. What is not in it is refused (`check`), so that nothing is left behind. No row is
needed by what says itself whose it is: rules of ufw by their comment, containers by their label.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from sparkwright.common.files import Directory, Symlink
from sparkwright.common.paths import FILES as _FILES

_UNIT_KINDS = ("service", "socket", "timer", "path", "slice")


@dataclass(frozen=True)
class Folder:
    """What stands directly in the root folder, beside weights: a folder of root's, or a link.

    Each Spark has it that is `everywhere`; others are made by the operation that needs them.
    """

    name: str
    mode: str = "755"
    everywhere: bool = True


FOLDERS = (
    Folder("backups", mode="700"),
    Folder("benchmarks", everywhere=False),
    Folder("bin"),
    # What a bundle has for the Spark, sent by runs or brought by its owner.
    Folder("bundle", everywhere=False),
    Folder("cache", mode="700"),
    Folder("current", everywhere=False),
    Folder("door", mode="700", everywhere=False),
    Folder("gateway", everywhere=False),
    Folder("hf", everywhere=False),
    Folder("jobs"),
    Folder("link"),
    Folder("manifests"),
    Folder("metrics", everywhere=False),
    Folder("releases"),
    Folder("seats", everywhere=False),
    Folder("secrets", mode="700"),
    Folder("sockets", mode="700"),
    Folder("state"),
)

# What the loop of turns on a Spark goes by: files/host/engine/turns/DESIGN.md.
TURNS = "manifests/turns.json"

# Of a seat's folder: where each engine has a folder of its own for the socket of its API. Nobody
# but root gets into the one above it; a door is confined in it. files/host/common/seat.py has both.
SOCKETS, SOCKET = "sockets/engines", "api.sock"

# The users as whom engines run, without rights: of the first seat, and of all others, each of which
# has a cache and sockets of its own.
FIRST_USER, SECOND_USER = USERS = "sparkwright-engine", "sparkwright-second"

# What of it proves that the root folder is ours, however far the first run came: a folder of the
# system could hold some of those names.
PROOF = (
    *("releases", "manifests", "state/installed", "state/sysctl", "backups/daemon.json"),
    "bin/fabric-guard",
)


@dataclass(frozen=True)
class Outside:
    """A file outside of the root folder that is no unit's.

    Attributes:
        goes: "restored" by an operation of its own: others have settings there, or it is in force.
        reader: the unit that is restarted once it is deleted, and its folder with it, if empty;
            "systemd" itself reads its units and settings anew.
        parameters: the kernel parameters that it sets, as patterns.
    """

    path: str
    goes: Literal["deleted", "purged", "restored"] = "deleted"
    reader: str = ""
    parameters: tuple[str, ...] = ()


SYSTEMD = "/etc/systemd/system"
JOURNALD = "/etc/systemd/journald.conf.d/sparkwright.conf"
SYSCTL = "/etc/sysctl.d/90-sparkwright.conf"
FABRIC_SYSCTL = "/etc/sysctl.d/60-sparkwright-fabric.conf"
TOOLKIT_SOURCES = "/etc/apt/sources.list.d/nvidia-container-toolkit.sources"
TOOLKIT_KEYRING = "/etc/apt/keyrings/nvidia-container-toolkit.asc"
EARLYOOM = "/etc/default/earlyoom"
EXPORTER = "prometheus-node-exporter"
EXPORTER_DEFAULTS = f"/etc/default/{EXPORTER}"
DAEMON_JSON = "/etc/docker/daemon.json"
NETPLAN = "/etc/netplan/60-sparkwright-fabric.yaml"
UFW_CONF = "/etc/ufw/ufw.conf"
# The programs of a Spark, for a person who looks.
COMMAND = "/usr/local/bin/sparkwright-host"

# The machine's watchdog, and the module of Arm's.
WATCHDOG = "/etc/systemd/system.conf.d/sparkwright.conf"
WATCHDOG_MODULE = "/etc/modules-load.d/sparkwright.conf"
# The units of the system's to which files/host/machine/room adds, and that of earlyoom.
ROOM = (
    *("system.slice", "user.slice", "init.scope", "session-.scope", "user@.service"),
    *("ssh.service", "systemd-journald.service"),
)
GUARD = "earlyoom.service"

FILES = (
    Outside(COMMAND),
    Outside(WATCHDOG, reader="systemd"),
    Outside(WATCHDOG_MODULE),
    *(Outside(f"{SYSTEMD}/{unit}.d/sparkwright.conf", reader="systemd") for unit in (*ROOM, GUARD)),
    Outside(JOURNALD, reader="systemd-journald.service"),
    Outside(
        FABRIC_SYSCTL, parameters=("net.ipv4.conf.*.arp_ignore", "net.ipv4.conf.*.arp_announce")
    ),
    Outside(SYSCTL, parameters=("vm.swappiness", "kernel.panic", "kernel.hardlockup_panic")),
    Outside(TOOLKIT_SOURCES),
    Outside(TOOLKIT_KEYRING),
    Outside(EARLYOOM, "purged"),
    Outside(EXPORTER_DEFAULTS, "purged"),
    Outside(DAEMON_JSON, "restored"),
    Outside(NETPLAN, "restored"),
    Outside(UFW_CONF, "restored"),
)

# The packages that a run may install; ROOT/state/installed names those that runs have installed.
PACKAGES = (*("earlyoom", "haproxy", "nvidia-container-toolkit", EXPORTER, "python3-venv", "ufw"),)


def folder_names() -> list[str]:
    """Return the names in the root folder that no checkpoint can have."""
    return [each.name for each in FOLDERS]


def folder(root: str, name: str) -> Directory:
    """Return a folder of the table as an operation makes it."""
    (row,) = (each for each in FOLDERS if each.name == name)
    return Directory(f"{root}/{name}", mode=row.mode)


# What another seat has below those of the first one, as units may, or may not, reach either.
SEAT_FOLDERS = ("door", "sockets", "state")


class Place(str):
    """The folder of one replica on a Spark, as text, which tells where its things are.

    The first replica has the root folder itself, as if it were alone. Each other one has a seat: a
    folder below it, with links to what all share (files/host/common/seat.py).
    """

    def __new__(cls, root: str, seat: str = "") -> Self:
        return super().__new__(cls, f"{root}/seats/{seat}" if seat else root)

    @property
    def seat(self) -> str:
        """The name of its seat; "" for the first one."""
        parent, _, name = self.rpartition("/")
        return name if parent.endswith("/seats") else ""

    @property
    def root(self) -> str:
        """The folder of everything on the Spark."""
        return self.removesuffix(f"/seats/{self.seat}") if self.seat else str(self)

    @property
    def user(self) -> str:
        """The user as whom its engine runs."""
        return SECOND_USER if self.seat else FIRST_USER

    def release(self, release: str) -> str:
        """Return the folder of a release, which all seats have in one place."""
        return f"{self.root}/releases/{release}"

    def sockets(self, release: str) -> str:
        """Return the folder of an engine's socket."""
        return f"{self}/{SOCKETS}/{release}"

    def cache(self, image: str) -> str:
        """Return where an engine keeps what it compiles: it loads no code of another's making."""
        own = f"{self.user}-{self.seat}" if self.seat else self.user
        return f"{self.root}/cache/{own}/{image}"

    def compiled(self, release: str) -> str:
        """Return the archive of what a release's first engine has compiled, before any client."""
        return f"{self.root}/cache/compiled/{release}.tar"


def seat_folders(place: Place) -> list[Directory | Symlink]:
    """Return the folder of a seat but the first: what it has of its own, and links to the rest."""
    if not place.seat:
        return []
    seat = f"seats/{place.seat}"
    own = [f"{name}/{seat}" for name in SEAT_FOLDERS]
    names = [each for name in (*own, seat) for each in (str(Path(name).parent), name)]
    links = dict(zip(SEAT_FOLDERS, own, strict=True))
    links |= {name: name for name in ("bin", "jobs", "manifests", "metrics", "releases")}
    return [
        *(Directory(f"{place.root}/{each}") for each in (*names, f"sockets/{seat}/engines")),
        *(Symlink(f"{place}/{name}", f"../../{target}") for name, target in links.items()),
    ]


def layout(root: str) -> list[Directory]:
    """Return the root folder and what every Spark has in it."""
    folders = [folder(root, each.name) for each in FOLDERS if each.everywhere]
    return [Directory(root), *folders, Directory(f"{root}/{SOCKETS}")]


@cache
def unit_names() -> list[str]:
    """Return the names of all unit files that a deploy may put on a Spark."""
    return sorted({path.name for kind in _UNIT_KINDS for path in _FILES.rglob(f"*.{kind}")})


def removal_table(root: str) -> dict[str, Any]:
    """Return the table as `remove` reads it: files/host/upkeep/cleanup/remove.py."""
    return {
        "root": root,
        "systemd": SYSTEMD,
        "run": "/run",
        "units": unit_names(),
        "folders": folder_names(),
        "proof": PROOF,
        "files": {file.path: file.reader for file in FILES if file.goes == "deleted"},
        "daemon_json": DAEMON_JSON,
        "netplan": NETPLAN,
        "users": USERS,
        "bundle": "bundle",
    }


def check(
    root: str = "",
    paths: Iterable[str] = (),
    packages: Iterable[str] = (),
    parameters: Iterable[str] = (),
) -> None:
    """Refuse what the table does not have, before an operation places it.

    Raises:
        LookupError: the table lacks something: `remove` would leave it behind.
    """
    patterns = [pattern for file in FILES for pattern in file.parameters]
    strange = [
        *(path for path in paths if not _is_known(path, root)),
        *(name for name in packages if name not in PACKAGES),
        *(name for name in parameters if not any(fnmatchcase(name, each) for each in patterns)),
    ]
    if strange:
        raise LookupError(f"sparkwright/common/placed.py: found no {', '.join(strange)}")


def _is_known(path: str, root: str) -> bool:
    if root and path.startswith(f"{root}/"):
        return path.removeprefix(f"{root}/").partition("/")[0] in folder_names()
    return path == root or path in _outside()


@cache
def _outside() -> frozenset[str]:
    """Return the files, their folders and the units beside the root folder."""
    ours = {Path(file.path) for file in FILES}
    units = {Path(SYSTEMD, name) for name in unit_names()}
    return frozenset(map(str, {*ours, *(each.parent for each in ours), *units}))
