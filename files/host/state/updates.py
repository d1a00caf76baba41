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
_APT = ("apt", *("-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="))
_UNATTENDED = ("APT::Periodic::Unattended-Upgrade", "Unattended-Upgrade")


def read(root: str) -> dict[str, Any]:
    """Return which of these packages are installed, whether held, and which marks are a run's."""
    form = "--showformat=${db:Status-Want} ${db:Status-Status} ${Package}\n"
    rows = [row.split(" ") for row in lines("dpkg-query", "--show", form)]
    there = {name: want == "hold" for want, status, name in rows if status == "installed"}
    return {
        "packages": {name: held for name, held in there.items() if _kind(name)},
        "ours": (text(f"{root}/state/held") or "").split(),
    }


def coming(root: str) -> dict[str, Any]:
    """Return what apt's lists on the Spark have newer, what runs, and what would after a boot."""
    done = run(*_APT, "list", "--upgradable", patience=50)
    options = lines("apt-config", "dump", "--format", "%f %v%n", *_UNATTENDED)
    now = {"kernel": os.uname().release, "driver": word("/sys/module/nvidia/version"), "Docker": ""}
    with suppress(UnknownError):
        now["Docker"] = (docker.get("/version") or {}).get("Version", "")
    kernel = _next_kernel() or now["kernel"]
    # Status 1 says that this kernel has no such module.
    module = run("modinfo", "-k", kernel, "-F", "version", "nvidia")
    driver = module.stdout.strip() if module.returncode in (0, 1) else now["driver"]
    program = re.search(r"version ([\w.+~-]+)", run("dockerd", "--version").stdout)
    then = {"kernel": kernel, "driver": driver, "Docker": program[1] if program else now["Docker"]}
    held = {*lines("apt-mark", "showhold")}
    return {
        "newer": [
            [kind, name, old, new, name not in held and alone(name, archives, options)]
            for name, archives, new, old in _NEWER.findall(done.stdout)
            if (kind := _kind(name))
        ],
        "fault": (done.stderr.strip().rpartition("\n")[2] or "apt fails")
        if done.returncode
        else "",
        "now": now,
        "then": then,
    }


def _kind(package: str) -> str | None:
    return next((kind for kind, pattern in _KINDS.items() if re.match(pattern, package)), None)


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
    on = any(value not in ("", "0") for value in found.get(_UNATTENDED[1], ()))
    return on and not kept and (taken or "Origins-Pattern" in found)


def _next_kernel() -> str:
    """Return the newest kernel that is installed; "" where GRUB is told to boot a certain one."""
    files = [f"default/grub.d/{name}" for name in names("/etc/default/grub.d")]
    told = "\n".join(text(f"/etc/{file}") or "" for file in ("default/grub", *files))
    if re.search(r"^GRUB_DEFAULT=[\"']?(?!0\b)\S", told, re.MULTILINE):
        return ""
    found = [name.partition("-")[2] for name in names("/boot") if name.startswith("vmlinuz-")]
    return max(found, key=lambda name: [*map(int, re.findall(r"\d+", name))], default="")
