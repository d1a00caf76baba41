"""The state of a unit, and whether it knows its present configuration."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from deploys.facts.host_fact import HostFact


@dataclass(frozen=True)
class ServiceState:
    """One unit.

    Attributes:
        known: systemd has such a unit.
        enabled: starts at boot, by its own link or because another unit wants it (static).
        outdated: one of its files changed after it had started (to the second).
    """

    known: bool
    active: bool
    enabled: bool
    outdated: bool


class Service(HostFact[ServiceState]):
    """The state of a unit in relation to the files that configure it."""

    def command(self, unit: str, files: Sequence[str]) -> str:
        paths = " ".join(map(shlex.quote, files))
        return f"""
unit={shlex.quote(unit)}
systemctl show --property=LoadState,ActiveState,UnitFileState,ActiveEnterTimestamp \\
  --timestamp=unix "$unit"
echo "Changed=$(stat --format=%Y -- {paths} 2>/dev/null | sort -n | tail -n 1)\""""

    def parse(self, output: list[str]) -> ServiceState:
        values = dict(line.split("=", 1) for line in output)
        # Without systemd there is no unit.
        state = values.get
        started = state("ActiveEnterTimestamp", "").removeprefix("@")
        return ServiceState(
            known=state("LoadState") == "loaded",
            active=state("ActiveState") == "active",
            enabled=state("UnitFileState") in ("enabled", "static", "alias", "indirect"),
            outdated=int(values["Changed"] or 0) > int(started or 0),
        )


class Unread(HostFact[list[str]]):
    """The units of which systemd has read another file than is there, or none.

    Args:
        units: their names; each has a file.
    """

    default = list

    def command(self, units: Sequence[str]) -> str:
        names = " ".join(map(shlex.quote, units))
        return (
            f"for unit in {names}; do "
            'systemctl show --property=NeedDaemonReload,FragmentPath "$unit" | '
            'grep -qx -e NeedDaemonReload=yes -e FragmentPath= && echo "$unit"; done; true'
        )

    def parse(self, output: list[str]) -> list[str]:
        return output


class Sysctls(HostFact[dict[str, str]]):
    """The values of kernel parameters; one that the kernel does not have is missing."""

    default = dict

    def command(self, keys: Sequence[str]) -> str:
        return f"sysctl {' '.join(map(shlex.quote, keys))} 2>/dev/null || true"

    def parse(self, output: list[str]) -> dict[str, str]:
        pairs = (line.partition("=") for line in output)
        return {key.strip(): value.strip() for key, _, value in pairs}


class ClockSync(HostFact[bool]):
    """Tell whether the clock is kept by NTP, or is another's, as in a container."""

    def command(self) -> str:
        return (
            "systemd-detect-virt --quiet --container && echo Container=yes; "
            "timedatectl show --property=NTP --property=CanNTP 2>/dev/null || true"
        )

    def parse(self, output: list[str]) -> bool:
        values = dict(line.split("=", 1) for line in output)
        kept = values.get("CanNTP") != "yes" or values.get("NTP") == "yes"
        return kept or "Container" in values

    @staticmethod
    def default() -> bool:
        return True
