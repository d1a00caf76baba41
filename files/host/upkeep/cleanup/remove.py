"""remove: take away what Sparkwright has placed on this Spark; it may be repeated.

It is given `removal_table` of sparkwright/common/placed.py, and settings.
"""

import os
import re
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from host.upkeep.cleanup.system import (
    LABEL,
    SET_ASIDE,
    HeldImage,
    carry_out,
    containers,
    do,
    has_others,
    image_orders,
    images,
    said,
    size,
    sized,
    text_of,
    without_ours,
)

# The records of fetching in a checkpoint's folder.
_RECORDS = (".sparkwright.json", ".sparkwright-partial")
# It yields the names of what goes, and removes that where it is asked to go on.
Part = Iterator[list[str]]


class Removal:
    """The parts of a Spark that are ours, by the table."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table
        self.root = Path(table["root"])
        self.systemd = Path(table["systemd"])
        self.daemon_json = Path(table["daemon_json"])

    def look(self) -> dict[str, object]:
        """Return what goes by its kind, what stays, and the result, as lines for people."""
        goes = {what: ", ".join(names) for what, part in self.parts() if (names := next(part))}
        stays = [*self.strangers()]
        result = "Sparkwright is removed" if goes else "nothing of Sparkwright is left"
        if self.weights and not self.table["weights"]:
            weights = ", ".join(self._sized(self.weights))
            stays.append(f"weights: {weights}; {self.table['more']} takes them as well")
            result += f"; {', '.join(str(self.root / name) for name in self.weights)} stays"
        if packages := self._packages():
            purge = f"sudo apt-get purge --auto-remove {' '.join(packages)}"
            stays.append(f"packages that runs have installed: {purge}")
            result += f"; so do packages that runs have installed: {purge}"
        return {
            "goes": [f"goes: {what}: {names}" for what, names in goes.items()],
            "stays": [f"stays: {each}" for each in stays],
            "result": result,
        }

    def remove(self) -> None:
        """Remove it; what proves that the root folder is ours goes last."""
        for _, part in self.parts():
            if next(part):
                next(part, None)
        if self.root.is_dir() and not self.entries:
            self.root.rmdir()

    def parts(self) -> Iterator[tuple[str, Part]]:
        """Yield what goes by its kind, in the order of removal."""
        yield "units", self._units()
        yield "containers", self._containers()
        yield "rules of ufw", self._rules()
        yield "network", self._network()
        yield "settings", self._settings()
        yield "marks of packages that are held", self._marks()
        yield "settings of Docker", self._docker_settings()
        yield "images", self._images()
        yield "accounts", self._accounts()
        yield "unit files", self._unit_files()
        yield "folders", self._folders(self.folders)
        if self.table["weights"]:
            yield "weights", self._folders(self.weights)

    @cached_property
    def named(self) -> dict[str, bool]:
        """Unit files with a name of ours, and whether the root folder in their text proves them."""
        found = [path for name in self.table["units"] if (path := self.systemd / name).exists()]
        return {str(path): str(self.root) in text_of(path) for path in found}

    @cached_property
    def units(self) -> list[str]:
        """Units and instances of ours that systemd has loaded or enabled."""
        ours = {Path(path).name for path, is_ours in self.named.items() if is_ours}
        patterns = [name.replace("@.", "@*.") for name in ours]
        listed = said("systemctl", "list-units", "--all", "--plain", "--no-legend", *patterns)
        known = {line.split()[0] for line in listed.splitlines() if line.strip()}
        known |= {link.name for link in self.systemd.glob("*.wants/*")}
        return sorted(unit for unit in known if ours & {unit, re.sub("@.*[.]", "@.", unit)})

    def _units(self) -> Part:
        """Stop first what would start an engine again; a fabric's guard outlives its engine."""
        yield self.units
        order = {"switch": 0, "turns.service": 0, "vllm": 1}
        for rank in range(3):
            units = [each for each in self.units if order.get(each.partition("@")[0], 2) == rank]
            if units:
                do("systemctl", "disable", "--quiet", "--now", *units)
        run = Path(self.table["run"])
        if masked := [path.name for path in run.glob("systemd/system/vllm@*.service")]:
            do("systemctl", "unmask", "--runtime", "--quiet", *masked)
        (run / "sparkwright" / "turns.json").unlink(missing_ok=True)

    def _unit_files(self) -> Part:
        ours = [path for path, is_ours in self.named.items() if is_ours]
        yield ours
        for path in ours:
            Path(path).unlink()
        do("systemctl", "daemon-reload")
        said("systemctl", "reset-failed", *self.units)

    def _containers(self) -> Part:
        """Our engines' containers, then the network for engines that fetch media."""
        label = f"label={self.table['network']}"
        networks = said("docker", "network", "ls", "--filter", label, "--format", "{{.Name}}")
        engines = said("docker", "ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()
        yield [*engines, *networks.split()]
        if engines:
            do("docker", "rm", "--force", *engines)
        if networks:
            do("docker", "network", "rm", *networks.split())

    def _rules(self) -> Part:
        """Our rules of ufw; those for SSH only where ufw goes off again, as it was."""
        turned_on = "on" in text_of(self.root / "state/firewall")
        added = said("ufw", "show", "added") if shutil.which("ufw") else ""
        found = re.findall("^ufw (.*) comment 'sparkwright (.*)'$", added, re.MULTILINE)
        rules = [rule for rule, purpose in found if turned_on or purpose != "ssh"]
        yield rules
        if turned_on:
            do("ufw", "disable")
        for rule in rules:
            do("ufw", "--force", "delete", *rule.split())

    def _network(self) -> Part:
        """The interfaces that the fabric's netplan file sets."""
        twins = re.findall(r"^    (\S+):$", text_of(Path(self.table["netplan"])), re.MULTILINE)
        yield twins
        unit = ("--expand-environment=no", "--unit=sparkwright-fabric", "/bin/sh", "-c")
        script = (self.table["withdraw"], "withdraw", *twins)
        do("systemd-run", "--quiet", "--collect", "--pipe", "--wait", *unit, *script)

    def _settings(self) -> Part:
        """Our files outside of the root folder, which units read."""
        # A link may point to a file that is gone.
        ours = {path: unit for path, unit in self.table["files"].items() if os.path.lexists(path)}
        yield [*ours]
        lines = text_of(self.root / "state/sysctl").splitlines()
        # The first value of each is the one from before our first change.
        for key, value in dict(line.split(" = ", 1) for line in reversed(lines)).items():
            # The interface may be gone.
            said("sysctl", "--quiet", "--write", f"{key}={value}")
        for path, reader in ours.items():
            Path(path).unlink()
            if reader:
                do("rmdir", "--ignore-fail-on-non-empty", str(Path(path).parent))
        for reader in dict.fromkeys(filter(None, ours.values())):
            do("systemctl", *(["daemon-reload"] if reader == "systemd" else ["restart", reader]))

    def _marks(self) -> Part:
        """The marks by which runs hold packages of the system."""
        ours = text_of(self.root / "state/held").split()
        held = [name for name in said("apt-mark", "showhold").split() if name in ours]
        yield held
        do("apt-mark", "unhold", *held)

    def _docker_settings(self) -> Part:
        backup = self.root / "backups/daemon.json"
        own = self.table["docker"] if backup.exists() else {}
        wanted = without_ours(text_of(self.daemon_json), text_of(backup), own)
        yield [] if wanted is None else [f"our keys of {self.daemon_json}"]
        if wanted and wanted.strip():
            # Half of it would stop Docker.
            new = self.daemon_json.with_name("daemon.json.new")
            new.write_text(wanted, "utf-8")
            new.replace(self.daemon_json)
        else:
            self.daemon_json.unlink()
        if not any(each["State"]["Running"] for each in self.others):
            do("systemctl", "restart", "docker.service")

    @cached_property
    def others(self) -> list[dict[str, Any]]:
        """The containers of others."""
        return [each for each in containers() if LABEL not in (each["Config"]["Labels"] or ())]

    @cached_property
    def images(self) -> dict[HeldImage, list[str]]:
        """The images that our jobs brought, with the containers of others made of them.

        Orders name them, except where a later copy has overwritten the order of an earlier one: a
        copied image has no name, and a release uses it. A built image comes before its base.
        """
        brought = {name for order in image_orders(self.root) for name in order.names}
        released = "".join(map(text_of, self.root.glob("releases/*/run")))
        return {
            image: [one["Name"][1:] for one in self.others if one["Image"] == image.id]
            for image in sorted(images(), key=lambda image: "@" in image.name)
            if image.is_any(brought) or (image.id in released and not image.names)
        }

    def _images(self) -> Part:
        free = [image for image, users in self.images.items() if not users]
        yield [sized(image.name, image.size) for image in free]
        do("docker", "image", "rm", "--force", *(image.id for image in free))

    def _accounts(self) -> Part:
        yield [name for name in self.table["users"] if said("getent", "passwd", name)]
        for name in self.table["users"]:
            said("userdel", name)

    def _packages(self) -> list[str]:
        """Return the packages that runs have installed, and that are still there."""
        names = sorted(set(text_of(self.root / "state/installed").split()))
        form = "--showformat=${db:Status-Status} ${Package}\n"
        # Without names, dpkg-query would show every package that there is.
        known = said("dpkg-query", "--show", form, *names) if names else ""
        return [line.split()[1] for line in known.splitlines() if line.startswith("installed ")]

    @property
    def entries(self) -> set[str]:
        """All that stands in the root folder."""
        return {path.name for path in self.root.iterdir()} if self.root.is_dir() else set()

    @property
    def weights(self) -> list[str]:
        """The checkpoints that we fetched, or found right."""
        records = (path for name in _RECORDS for path in self.root.glob(f"*/{name}"))
        return sorted({path.parent.name for path in records})

    @property
    def folders(self) -> list[str]:
        """Our entries of the root folder beside checkpoints; what proves it ours comes last."""
        proof = self.table["proof"]
        if not any((self.root / path).exists() for path in proof):
            return []
        names = self.entries & set(self.table["folders"]) - set(self.weights)
        return sorted(names, key=lambda name: (any(name in path for path in proof), name))

    def strangers(self) -> Iterator[str]:
        """Name what stays, as it is not ours or others use it."""
        foreign = [path for path, is_ours in self.named.items() if not is_ours]
        drop_ins = [self.systemd / f"{name}.d" for name in self.table["units"]]
        strange = sorted(self.entries - {*self.folders, *self.weights})
        for path in (*foreign, *filter(Path.exists, drop_ins), *map(self.root.joinpath, strange)):
            yield f"{path}, which is not ours"
        for path in filter(has_others, map(self.root.joinpath, self.weights)):
            yield f"{path / SET_ASIDE}: files of others"
        for image, users in self.images.items():
            if users:
                yield f"image {image.name}: {', '.join(users)} was made of it"

    def _sized(self, names: list[str]) -> list[str]:
        return [sized(path, size(path)) for path in map(self.root.joinpath, names)]

    def _folders(self, names: list[str]) -> Part:
        yield self._sized(names)
        for path in map(self.root.joinpath, names):
            # Its owner may have brought the bundle on a disk, which keeps what is on it.
            is_bundle = path.name == self.table["bundle"]
            if path.is_dir() and not (is_bundle and (path.is_symlink() or path.is_mount())):
                kept = ["!", "-path", f"*/{SET_ASIDE}*"] if has_others(path) else []
                # A folder may be a link to another disk.
                do("find", "-H", str(path), "-mindepth", "1", *kept, "-delete")
            if path.is_symlink() or path.is_file():
                path.unlink()
            elif not any(path.iterdir()):
                path.rmdir()


def command() -> None:
    """Remove what the command line's JSON says."""
    carry_out(lambda table: Removal(table).remove())
