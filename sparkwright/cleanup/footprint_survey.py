"""The survey of what is ours: one shell script that reads it, and the parser of its output."""

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from sparkwright.cleanup.artifacts import ORDER
from sparkwright.cleanup.footprint import SET_ASIDE, Entry, Footprint, OurImage
from sparkwright.common.host_output import read_json, sections, sections_script
from sparkwright.common.placed import (
    DAEMON_JSON,
    EARLYOOM,
    NETPLAN,
    PROOF,
    SYSTEMD,
    deleted_files,
    unit_names,
)
from sparkwright.common.render import render
from sparkwright.firewall.firewall import firewall_script, parse_firewall
from sparkwright.release.container import MEDIA_NETWORK

# What apt would take away with each: asked one by one only where something else would go.
_PACKAGES = """
# Without names, dpkg-query would show every package that there is.
recorded=$(sort -u {{ root }}/state/installed)
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


def footprint_script(root: str) -> str:
    """Return the POSIX shell script that reads it all; it only reads, and exits 0."""
    at = shlex.quote(root)
    names = unit_names()
    patterns = " ".join(shlex.quote(name.replace("@.", "@*.")) for name in names)
    parts = {
        "unit-files": f"cd {SYSTEMD}; for name in {shlex.join(names)}; do "
        f'if [ -e "$name" ]; then grep -qF {at} "$name" && echo "ours $name" '
        '|| echo "foreign $name"; fi; [ ! -e "$name.d" ] || echo "foreign $name.d"; done',
        "units": f"systemctl list-units --all --plain --no-legend {patterns} | cut -d' ' -f1; "
        f"find {SYSTEMD}/*.wants -type l -printf '%f\\n'",
        "containers": "docker ps --all --quiet --filter label=sparkwright.release",
        "networks": f"docker network ls --quiet --filter label={MEDIA_NETWORK}",
        "proof": f"ls -d {' '.join(f'{at}/{name}' for name in PROOF)}",
        "entries": f"find {at}/ -mindepth 1 -maxdepth 1 -printf '%f\\n' | while read -r name; do "
        f'path={at}/$name weights=no aside=no; [ -e "$path/.sparkwright.json" ] || '
        '[ -e "$path/.sparkwright-partial" ] && weights=yes; '
        f'[ -z "$(ls -A "$path/{SET_ASIDE}")" ] || aside=yes; '
        'echo "$(du -sD --block-size=1 "$path" | cut -f1) $weights $aside $name"; done',
        "settings": f"for path in {shlex.join(file.path for file in deleted_files())}; do "
        # A link may point to what is gone.
        'if [ -e "$path" ] || [ -L "$path" ]; then echo "$path"; fi; done',
        "earlyoom": f"cat {EARLYOOM}",
        "sysctl": f"cat {at}/state/sysctl",
        "daemon-json": f"cat {DAEMON_JSON}",
        "previous": f"cd {at}/backups && test -e daemon.json && echo known && cat daemon.json",
        "proxies": f"cat {at}/state/docker-proxies",
        "netplan": f"cat {NETPLAN}",
        "orders": f"for file in {at}/manifests/image*.json; do {ORDER}; echo; done",
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
        "packages": render(_PACKAGES, root=at),
    }
    return "\n".join([sections_script(parts), firewall_script(root)])


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
            unit_files=tuple(f"{SYSTEMD}/{name}" for name in names),
            foreign=tuple(f"{SYSTEMD}/{name}" for kind, name in files if kind == "foreign"),
            containers=tuple(found["containers"]),
            networks=tuple(found["networks"]),
            is_ours=bool(found["proof"]),
            entries=tuple(sorted(map(_entry, found["entries"]), key=lambda entry: entry.name)),
            settings=tuple(found["settings"]),
            earlyoom="".join(f"{line}\n" for line in found["earlyoom"]),
            sysctl=_parameters(found["sysctl"]),
            daemon_json="".join(f"{line}\n" for line in found["daemon-json"]),
            previous="".join(f"{line}\n" for line in found["previous"][1:])
            if found["previous"]
            else None,
            proxies=tuple(found["proxies"]),
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
) -> Iterator[OurImage]:
    """Yield the images that a job of ours brought.

    Orders tell, but those of a copy are overwritten by the next one's: a copied image has no name,
    and is that of a release.
    """
    brought = {name for order in orders for name in _names(order)}
    for line in lines:
        identity, size, rest = line.split(" ", 2)
        own_id = read_json(identity)
        tags, end = json.JSONDecoder().raw_decode(rest)
        names = [*(tags or ()), *(read_json(rest[end:]) or ())]
        if brought.intersection([own_id, *names]) or (own_id in released and not names):
            users = tuple(
                name.lstrip("/")
                for used, _, name, whose in made_of
                if used == own_id and whose == "other"
            )
            yield OurImage(own_id, (names or [own_id])[0], int(size), users)


def _names(order: str) -> list[str]:
    """Return the names of the image that a job's orders are about; an export brings none."""
    told: dict[str, Any] = read_json(order) if order.strip() else {}
    if "source" in told:  # a copy
        return list(told["images"])
    return [told["image"]] if "image" in told and "images" not in told else []
