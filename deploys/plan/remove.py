"""Leaving: what of a Spark is ours, as one shell script reads it, and what is to become of it."""

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploys.plan.daemon_json import without_ours
from deploys.plan.errors import PlanError
from deploys.plan.fabric import NETPLAN
from deploys.plan.firewall import FirewallState, Rule, firewall_script, parse_firewall
from deploys.plan.progress import size_text
from deploys.plan.sections import MARK, sections

_FILES = Path(__file__).parents[2] / "files"
_SYSTEMD = "/etc/systemd/system"

# What stands directly in the root folder beside weights.
OWN = (
    *("backups", "benchmarks", "bin", "cache", "current", "door", "exports", "gateway", "hf"),
    *("imports", "jobs", "link", "manifests", "metrics", "releases", "secrets", "state"),
)

# What of it proves that the folder is ours, however far the first run came: a folder of the system
# could hold some of those names.
_PROOF = (
    *("releases", "manifests", "state/installed", "state/sysctl", "backups/daemon.json"),
    "bin/fabric-guard",
)

# Our files outside of it that are no units. Each is ours alone by its name, or by what it says.
JOURNALD = "/etc/systemd/journald.conf.d/sparkwright.conf"
TOOLKIT = (
    "/etc/apt/sources.list.d/nvidia-container-toolkit.sources",
    "/etc/apt/keyrings/nvidia-container-toolkit.asc",
)
SETTINGS = (
    JOURNALD,
    "/etc/sysctl.d/60-sparkwright-fabric.conf",
    "/etc/sysctl.d/90-sparkwright.conf",
    *TOOLKIT,
)
EARLYOOM = "/etc/default/earlyoom"
# Where fetching puts what was in a checkpoint's folder before: files/jobs/checkpoint.py.
SET_ASIDE = ".sparkwright-set-aside"


@dataclass(frozen=True)
class Entry:
    """What stands directly in the root folder.

    Attributes:
        size: bytes.
        weights: it is a checkpoint that we fetched, or found right.
        set_aside: files of others are in it, which were there before the weights.
    """

    name: str
    size: int
    weights: bool
    set_aside: bool


@dataclass(frozen=True)
class Image:
    """An image that a job of ours brought.

    Attributes:
        id: Docker's.
        name: one of its names.
        size: bytes, unpacked.
        users: containers of others that were made of it.
    """

    id: str
    name: str
    size: int
    users: tuple[str, ...]


@dataclass(frozen=True)
class Footprint:
    """What of a Spark is ours.

    Attributes:
        units: instances and units of ours that systemd has loaded or enabled.
        unit_files: their files.
        foreign: files and drop-ins with the name of a unit of ours, and another's content.
        containers: ids of our engines' containers.
        is_ours: the root folder is.
        entries: all that stands in it.
        settings: those of `SETTINGS` that there are.
        earlyoom: text of its settings; "" without.
        sysctl: kernel parameters as they were before our first change.
        daemon_json, former: Docker's configuration, and as it was before our first change; None
            where nothing says what it was.
        netplan: text of the fabric's netplan file; "" without one.
        images: what we brought.
        others_run: containers of others are running.
        packages: installed by us, and still here.
        needed: those of them that others have come to need, and by whom.
        accounts: of users and groups, that came with them and are still here.
        firewall: ufw, with our rules.
    """

    units: tuple[str, ...]
    unit_files: tuple[str, ...]
    foreign: tuple[str, ...]
    containers: tuple[str, ...]
    is_ours: bool
    entries: tuple[Entry, ...]
    settings: tuple[str, ...]
    earlyoom: str
    sysctl: dict[str, str]
    daemon_json: str
    former: str | None
    netplan: str
    images: tuple[Image, ...]
    others_run: bool
    packages: tuple[str, ...]
    needed: dict[str, tuple[str, ...]]
    accounts: tuple[str, ...]
    firewall: FirewallState

    @property
    def weights(self) -> tuple[Entry, ...]:
        """The checkpoints."""
        return tuple(entry for entry in self.entries if entry.weights)

    @property
    def folders(self) -> tuple[Entry, ...]:
        """What is ours in the root folder beside checkpoints; the proof of it comes last."""
        found = [e for e in self.entries if self.is_ours and e.name in OWN and not e.weights]
        return tuple(sorted(found, key=lambda entry: entry.name in _PROOF))

    @property
    def strange(self) -> tuple[Entry, ...]:
        """What is not ours in the root folder."""
        known = {*self.folders, *self.weights}
        return tuple(entry for entry in self.entries if entry not in known)

    @property
    def removable_images(self) -> tuple[Image, ...]:
        """Those that no container of others was made of; what was built here comes first."""
        free = [image for image in self.images if not image.users]
        return tuple(sorted(free, key=lambda image: "@" in image.name))

    @property
    def removable_packages(self) -> tuple[str, ...]:
        """Those that nothing else needs."""
        return tuple(package for package in self.packages if package not in self.needed)

    @property
    def removable_accounts(self) -> tuple[str, ...]:
        """All or none: nothing tells whose package has made which."""
        return () if self.needed else self.accounts

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Our rules of ufw that can go: those for SSH only where ufw goes off again."""
        ours = [rule for rule in self.firewall.rules if rule.purpose]
        return tuple(rule for rule in ours if rule.purpose != "ssh" or self.firewall.turned_on)

    @property
    def twins(self) -> tuple[str, ...]:
        """The interfaces that the fabric's netplan file sets."""
        return tuple(re.findall(r"^    (\S+):$", self.netplan, re.MULTILINE))

    def docker_settings(self, log_options: Mapping[str, str]) -> str:
        """Return what daemon.json is without our keys; as it is where nobody can tell them.

        Args:
            log_options: those that we set.
        """
        if self.former is None:
            return self.daemon_json
        try:
            return without_ours(self.daemon_json, self.former, log_options)
        except ValueError:
            # Docker does not start with such a file: its owner is at work on it.
            return self.daemon_json


def checked_weights(found: object) -> bool:
    """Return whether the weights go as well, by `--data weights=…`; they stay by default.

    Raises:
        PlanError: it says something else than "remove".
    """
    if found not in (None, "remove"):
        raise PlanError(f"--data weights: found {found!r}; expected remove, or nothing of the kind")
    return found == "remove"


def unit_names() -> list[str]:
    """Return the names of all unit files that a deploy may put on a Spark."""
    kinds = ("service", "socket", "timer", "path")
    return sorted({path.name for kind in kinds for path in _FILES.rglob(f"*.{kind}")})


def footprint_script(root: str) -> str:
    """Return the POSIX shell script that reads it all; it only reads, and exits 0.

    Args:
        root: the folder of everything on the Spark.
    """
    at = shlex.quote(root)
    names = unit_names()
    patterns = " ".join(shlex.quote(name.replace("@.", "@*.")) for name in names)
    parts = {
        "unit-files": f"cd {_SYSTEMD}; for name in {shlex.join(names)}; do "
        f'if [ -e "$name" ]; then grep -qF {at} "$name" && echo "ours $name" '
        '|| echo "foreign $name"; fi; [ ! -e "$name.d" ] || echo "foreign $name.d"; done',
        "units": f"systemctl list-units --all --plain --no-legend {patterns} | cut -d' ' -f1; "
        f"find {_SYSTEMD}/*.wants -type l -printf '%f\\n'",
        "containers": "docker ps --all --quiet --filter label=sparkwright.release",
        "proof": f"ls -d {' '.join(f'{at}/{name}' for name in _PROOF)}",
        "entries": f"find {at}/ -mindepth 1 -maxdepth 1 -printf '%f\\n' | while read -r name; do "
        f'path={at}/$name weights=no aside=no; [ -e "$path/.sparkwright.json" ] || '
        '[ -e "$path/.sparkwright-partial" ] && weights=yes; '
        f'[ -z "$(ls -A "$path/{SET_ASIDE}")" ] || aside=yes; '
        'echo "$(du -sD --block-size=1 "$path" | cut -f1) $weights $aside $name"; done',
        "settings": f"for path in {' '.join(SETTINGS)}; do [ ! -e $path ] || echo $path; done",
        "earlyoom": f"cat {EARLYOOM}",
        "sysctl": f"cat {at}/state/sysctl",
        "daemon-json": "cat /etc/docker/daemon.json",
        "former": f"test -e {at}/backups/daemon.json && echo known && cat {at}/backups/daemon.json",
        "netplan": f"cat {NETPLAN}",
        "orders": f"for file in {at}/manifests/image*.json; do tr -d '\\n' < \"$file\"; echo; done",
        "released": f"grep -ho 'sha256:[0-9a-f]*' {at}/releases/*/run",
        "images": "docker image inspect --format "
        "'{{json .Id}} {{.Size}} {{json .RepoTags}} {{json .RepoDigests}}' "
        "$(docker image ls --quiet --no-trunc)",
        "made-of": "docker inspect --format '{{.Image}} {{.State.Running}} "
        '{{.Name}} {{if index .Config.Labels "sparkwright.release"}}ours{{else}}other{{end}}\' '
        "$(docker ps --all --quiet)",
        "recorded": f"cat {at}/state/installed",
        "accounts": f"for name in $(sort -u {at}/state/accounts); do "
        'getent passwd "$name" >/dev/null || getent group "$name" >/dev/null && echo "$name"; done',
        "packages": _PACKAGES.replace("FILE", f"{at}/state/installed"),
    }
    lines = [f"echo {MARK}{name}; ( {body} ) 2>/dev/null" for name, body in parts.items()]
    return "\n".join([*lines, firewall_script(root)])


# What apt would take away with each: asked one by one only where something else would go.
_PACKAGES = """
# Without names, dpkg-query would show every package that there is.
recorded=$(sort -u FILE)
[ -n "$recorded" ] || exit 0
here=$(dpkg-query --show --showformat='${db:Status-Status} ${binary:Package}\\n' $recorded |
  sed -n 's/^installed //p')
[ -n "$here" ] || exit 0
going() { apt-get --simulate purge "$@" | awk '/^(Purg|Remv) / {sub(/:.*/, "", $2); print $2}'; }
names=$(echo "$here" | sed 's/:.*//')
if [ -z "$(going $here | grep -Fxv "$names")" ]; then
  for name in $names; do echo "$name"; done
else
  for package in $here; do echo "${package%%:*}" $(going $package | grep -Fxv "$names"); done
fi"""


def parse_footprint(output: Iterable[str]) -> Footprint:
    """Return the footprint that the script's output lines describe.

    Raises:
        ValueError: a section is missing or malformed.
    """
    lines = list(output)
    try:
        found = sections(lines)
        files = [line.split() for line in found["unit-files"]]
        recorded = {name.partition(":")[0] for name in found["recorded"]}
        packages = [line.split() for line in found["packages"] if line.split()[0] in recorded]
        names = [name for kind, name in files if kind == "ours"]
        made_of = [line.split(" ") for line in found["made-of"]]
        return Footprint(
            units=tuple(sorted(_units(found["units"], names))),
            unit_files=tuple(f"{_SYSTEMD}/{name}" for name in names),
            foreign=tuple(f"{_SYSTEMD}/{name}" for kind, name in files if kind == "foreign"),
            containers=tuple(found["containers"]),
            is_ours=bool(found["proof"]),
            entries=tuple(sorted(map(_entry, found["entries"]), key=lambda entry: entry.name)),
            settings=tuple(found["settings"]),
            earlyoom="".join(f"{line}\n" for line in found["earlyoom"]),
            sysctl=_parameters(found["sysctl"]),
            daemon_json="".join(f"{line}\n" for line in found["daemon-json"]),
            former="".join(f"{line}\n" for line in found["former"][1:])
            if found["former"]
            else None,
            netplan="".join(f"{line}\n" for line in found["netplan"]),
            images=tuple(_images(found["images"], found["orders"], found["released"], made_of)),
            others_run=any(made[1] == "true" and made[3] == "other" for made in made_of),
            packages=tuple(name for name, *_ in packages),
            needed={name: tuple(by) for name, *by in packages if by},
            accounts=tuple(found["accounts"]),
            firewall=parse_firewall(lines),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"the footprint of the host is incomplete: {error!r}") from error


def _units(loaded: Iterable[str], files: Collection[str]) -> set[str]:
    """Return the units that have one of these files."""
    return {unit for unit in loaded if unit in files or _template(unit) in files}


def _template(unit: str) -> str:
    name, at, rest = unit.partition("@")
    return f"{name}@.{rest.rpartition('.')[2]}" if at else unit


def _entry(line: str) -> Entry:
    size, weights, aside, name = line.split(" ", 3)
    return Entry(name, int(size), weights == "yes", aside == "yes")


def _parameters(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(" = ")
        found.setdefault(key, value)
    return found


def _images(
    lines: Iterable[str],
    orders: Iterable[str],
    released: Collection[str],
    made_of: Sequence[Sequence[str]],
) -> Iterator[Image]:
    """Yield the images that a job of ours brought.

    Orders tell, but those of a copy are overwritten by the next one's: a copied image has no name,
    and is that of a release.
    """
    brought = {name for order in orders for name in _names(order)}
    for line in lines:
        identity, size, rest = line.split(" ", 2)
        own_id = json.loads(identity)
        tags, end = json.JSONDecoder().raw_decode(rest)
        names = [*(tags or ()), *(json.loads(rest[end:]) or ())]
        if brought.intersection([own_id, *names]) or (own_id in released and not names):
            users = tuple(
                name.lstrip("/")
                for used, _, name, whose in made_of
                if used == own_id and whose == "other"
            )
            yield Image(own_id, (names or [own_id])[0], int(size), users)


def _names(order: str) -> list[str]:
    """Return the names of the image that a job's orders are about; an export brings none."""
    told: dict[str, Any] = json.loads(order) if order.strip() else {}
    if "source" in told:  # a copy
        return list(told["images"])
    return [told["image"]] if "image" in told and "images" not in told else []


def report(
    found: Footprint, root: str, *, weights: bool, earlyoom: str, log_options: Mapping[str, str]
) -> list[str]:
    """Return what goes and what stays, one line each; nothing where nothing is ours.

    Args:
        found: what is there.
        root: the folder of everything on the Spark.
        weights: whether they go.
        earlyoom: text of the settings that we give to it.
        log_options: those that we set for Docker.
    """
    goes = dict(_goes(found, root, log_options))
    stays = [*_stays(found, root, earlyoom)]
    checkpoints = [f"{root}/{entry.name} ({size_text(entry.size)})" for entry in found.weights]
    if weights and checkpoints:
        goes["weights"] = checkpoints
    elif checkpoints:
        stays.append(f"weights: {', '.join(checkpoints)}; --data weights=remove takes them as well")
    return [
        *(f"goes: {what}: {', '.join(names)}" for what, names in goes.items() if names),
        *(f"stays: {line}" for line in stays),
    ]


def _goes(
    found: Footprint, root: str, log_options: Mapping[str, str]
) -> Iterator[tuple[str, list[str]]]:
    yield "units", list(found.units)
    yield "unit files", list(found.unit_files)
    yield "rules of ufw", [rule.text for rule in found.rules]
    if found.firewall.turned_on:
        yield "ufw", ["turned off, as it was"]
    if found.netplan:
        yield "network", [f"{NETPLAN} ({', '.join(found.twins)})"]
    yield "settings", list(found.settings)
    if found.docker_settings(log_options) != found.daemon_json:
        after = "at its next start: containers run" if found.others_run else "it restarts"
        yield "settings of Docker", [f"our keys of /etc/docker/daemon.json ({after})"]
    yield "images", [f"{image.name} ({size_text(image.size)})" for image in found.removable_images]
    yield "packages", list(found.removable_packages)
    yield "accounts", list(found.removable_accounts)
    yield (
        "folders",
        [f"{root}/{entry.name} ({size_text(entry.size)})" for entry in found.folders],
    )


def _stays(found: Footprint, root: str, earlyoom: str) -> Iterator[str]:
    for path in found.foreign:
        yield f"{path}, which is not ours"
    for entry in found.strange:
        yield f"{root}/{entry.name} ({size_text(entry.size)}), which is not ours"
    for entry in found.weights:
        if entry.set_aside:
            yield f"{root}/{entry.name}/{SET_ASIDE}: files of others"
    for image in found.images:
        if image.users:
            yield f"image {image.name}: {', '.join(image.users)} was made of it"
    for package, by in found.needed.items():
        yield f"package {package}: {', '.join(by)} needs it"
    if found.needed and found.accounts:
        yield f"accounts that came with our packages: {', '.join(found.accounts)}"
    if found.earlyoom == earlyoom and "earlyoom" not in found.packages:
        yield f"{EARLYOOM}: earlyoom was here before us, and what it said then is not known"
    if found.folders and found.former is None and found.daemon_json:
        yield "/etc/docker/daemon.json: nothing in it is known to be ours"
