"""Kernel, driver, toolkit and Docker: their packages, what apt would bring, and the next boot."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from host.state import docker
from host.state.readers import UnknownError, lines, names, run, text, word

_KINDS = {
    "container toolkit": r"(lib)?nvidia-container\b",
    "driver": r"((lib)?nvidia-(cfg1|common|compute|decode|dkms|driver|encode|extra|fbc1|firmware|"
    r"gl|gpucomp|headless|kernel|modprobe|open|utils)|cuda-drivers|xserver-xorg-.*nvidia)\b",
    "kernel": r"linux-(generic|headers|image|modules|nvidia|tools)\b",
    "Docker": r"(docker-(buildx|ce|compose)|docker\.io|containerd|runc)\b",
}
# A line of `apt list --upgradable`: package, archives, new version, present version. Without a
# cache apt writes nothing, and may take seconds to read all lists.
_NEWER = re.compile(r"^([^/\s]+)/(\S+) (\S+) \S+ \[upgradable from: (\S+)\]", re.MULTILINE)
_APT = ("apt", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=")


def read(root: str, apt: bool = False) -> dict[str, Any]:
    """Return these packages, whether held, and the marks of runs; `apt`: and what would come."""
    form = "--showformat=${db:Status-Want} ${db:Status-Status} ${Package}\n"
    rows = [row.split(" ") for row in lines("dpkg-query", "--show", form)]
    there = {name: want == "hold" for want, status, name in rows if status == "installed"}
    packages = {name: held for name, held in there.items() if _kind(name)}
    found = {"packages": packages, "ours": (text(f"{root}/state/held") or "").split()}
    return {**found, **_boot(), **_newer(packages)} if apt else found


def _kind(package: str) -> str | None:
    return next((kind for kind, pattern in _KINDS.items() if re.match(pattern, package)), None)


def _newer(packages: dict[str, bool]) -> dict[str, Any]:
    done = run(*_APT, "list", "--upgradable", patience=50)
    words = ("--format", "%f %v%n", "APT::Periodic::Unattended-Upgrade", "Unattended-Upgrade")
    options = lines("apt-config", "dump", *words)
    newer = [
        (_kind(name), name, old, new, not packages[name] and alone(name, archives, options))
        for name, archives, new, old in _NEWER.findall(done.stdout)
        if name in packages
    ]
    said = done.stderr.strip().rpartition("\n")[2] or "apt fails"
    return {"newer": newer, "fault": said if done.returncode else ""}


def alone(package: str, archives: str, options: Iterable[str]) -> bool:
    """Tell whether unattended-upgrades, by its options, takes a package from these archives."""
    found: dict[str, list[str]] = {}
    for name, _, value in (row.partition(" ") for row in options):
        found.setdefault(name.rstrip(":").rpartition("::")[2], []).append(value)
    kept = any(re.match(value, package) for value in found.get("Package-Blacklist", ()) if value)
    # None of Ubuntu's updates is in the archive of the release's own name, which others use.
    origins = (each.rpartition(":")[2] for each in found.get("Allowed-Origins", ()))
    ends = [each.removeprefix("${distro_codename}") for each in origins]
    taken = any(end and each.endswith(end) for end in ends for each in archives.split(","))
    on = any(value not in ("", "0") for value in found.get("Unattended-Upgrade", ()))
    return on and not kept and (taken or "Origins-Pattern" in found)


def _boot() -> dict[str, Any]:
    """Return what runs, and what would after a boot."""
    now = {"kernel": os.uname().release, "driver": word("/sys/module/nvidia/version"), "Docker": ""}
    with suppress(UnknownError):
        now["Docker"] = (docker.get("/version") or {}).get("Version", "")
    then = now | {"kernel": _next_kernel() or now["kernel"]}
    module = run("modinfo", "-k", then["kernel"], "-F", "version", "nvidia")
    # Status 1 says that this kernel has no such module.
    if module.returncode in (0, 1):
        then["driver"] = module.stdout.strip()
    if program := re.search(r"version ([\w.+~-]+)", run("dockerd", "--version").stdout):
        then["Docker"] = program[1]
    return {"now": now, "then": then}


def _next_kernel() -> str:
    """Return the newest kernel that is installed; "" where GRUB is told to boot a certain one."""
    files = [f"default/grub.d/{name}" for name in names("/etc/default/grub.d")]
    told = "\n".join(text(f"/etc/{file}") or "" for file in ("default/grub", *files))
    if re.search(r"^GRUB_DEFAULT=[\"']?(?!0\b)\S", told, re.MULTILINE):
        return ""
    found = [name.partition("-")[2] for name in names("/boot") if name.startswith("vmlinuz-")]
    return max(found, key=lambda name: [*map(int, re.findall(r"\d+", name))], default="")
