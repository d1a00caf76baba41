"""Kernel, driver, toolkit and Docker: their packages, what apt would bring, and the next boot."""

import os
import re
from collections.abc import Iterator
from typing import Any

from host.state.readers import lines, output, run, text, word

_KINDS = {
    "container toolkit": r"(lib)?nvidia-container\b",
    "driver": r"((lib)?nvidia-(cfg1|common|compute|decode|dkms|driver|encode|extra|fbc1|firmware|"
    r"gl|gpucomp|headless|kernel|modprobe|open|utils)|cuda-drivers|xserver-xorg-.*nvidia)\b",
    "kernel": r"linux-(generic|headers|image|modules|nvidia)\b",
    "Docker": r"(docker-(buildx|ce|compose)|docker\.io|containerd|runc)\b",
}
Rows = Iterator[tuple[str, ...]]
# A line of `apt list --upgradable`: package, archives, new version, present version. Without a
# cache apt writes nothing, and may take seconds to read all lists.
_NEWER = re.compile(r"^([^/\s]+)/(\S+) (\S+) \S+ \[upgradable from: (\S+)\]", re.MULTILINE)
_APT = ("apt", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=")


def read(root: str, hold: bool = True, apt: bool = False) -> dict[str, Any]:
    """Return these packages, whether held, and the marks of runs; `apt`: and what would come.

    Without `hold` and marks there is nothing to do with them: none are read.
    """
    ours = (text(f"{root}/state/held") or "").split()
    rows = []
    if hold or apt or ours:
        rows = lines("dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Package}\n")
    there = {name: status == "hi" for status, name in map(str.split, rows) if status[1:] == "i"}
    kinds = {name: kind for kind, like in _KINDS.items() for name in there if re.match(like, name)}
    packages = {name: there[name] for name in kinds}
    now = {"kernel": os.uname().release, "driver": word("/sys/module/nvidia/version")}
    coming = [*_at_boot(**now), *_newer(kinds, packages, ours)] if apt else []
    return {"packages": packages, "ours": ours, "now": now, "coming": coming}


def _at_boot(kernel: str, driver: str) -> Rows:
    menu = text("/boot/grub/grub.cfg") or ""
    first = re.search(r"^\s*linux\s+\S*/vmlinuz-(\S+)", menu, re.MULTILINE)
    # With another default, its owner has chosen a certain kernel.
    then = first[1] if first and 'set default="0"' in menu else kernel
    if then != kernel:
        yield "kernel", "kernel", kernel, then, "with the next boot"
    module = run("modinfo", "-k", then, "-F", "version", "nvidia")
    version = module.stdout.strip() or f"none for kernel {then}"
    # Status 1 says that this kernel has no such module.
    if driver not in ("", version) and module.returncode in (0, 1):
        yield "driver", "driver", driver, version, "with the next boot"


def _newer(kinds: dict[str, str], packages: dict[str, bool], ours: list[str]) -> Rows:
    done = run(*_APT, "list", "--upgradable", patience=50)
    if done.returncode:
        yield "apt", "apt", "to say what comes", done.stderr.strip().rpartition("\n")[2], "failed"
    words = ("APT::Periodic::Unattended-Upgrade", "Unattended-Upgrade")
    options = output("apt-config", "dump", "--format", "%f %v%n", *words)
    found: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for name, archives, new, old in _NEWER.findall(done.stdout):
        alone = not packages.get(name, True) and may_take(name, archives, options)
        if name in packages and (when := "held" if name in ours else "by itself" if alone else ""):
            found.setdefault((kinds[name], when), []).append((name, old, new))
    for (kind, when), rows in found.items():
        name, old, new = min(rows, key=lambda row: len(row[0]))
        more = f", and {len(rows) - 1} more" if rows[1:] else ""
        yield kind, f"{kind} ({name}{more})", old, new, when


def may_take(package: str, archives: str, options: str) -> bool:
    """Tell whether unattended-upgrades, by its options, may take a package from these archives."""
    on = re.search(r"^APT::Periodic::Unattended-Upgrade [^0]", options, re.MULTILINE)
    kept = re.findall(r"^Unattended-Upgrade::Package-Blacklist:: (.+)", options, re.MULTILINE)
    # Options name archives, such as ${distro_codename}-security, or patterns that may mean any.
    allowed = any(end in options for end in ("Origins-Pattern", *re.findall(r"-\w+", archives)))
    return bool(on) and allowed and not any(re.match(each, package) for each in kept)
