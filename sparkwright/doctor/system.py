"""The system of a Spark: its maker's product, and the versions of firmware and system."""

from collections.abc import Iterable
from dataclasses import dataclass

# The shell command whose output `parse_system` takes. NVIDIA's file has the serial number, too.
SYSTEM_COMMAND = """\
echo hostname="$(uname -n)"
for each in product_name bios_version; do echo $each="$(cat /sys/class/dmi/id/$each)"; done
grep -E '^PRETTY_NAME=' /etc/os-release
grep -E '^DGX_(SWBUILD|OTA)_VERSION=' /etc/dgx-release"""


@dataclass(frozen=True)
class System:
    """The system of a Spark; empty texts for what it does not tell.

    Attributes:
        hostname: what it calls itself.
        product: the maker's name for it.
        firmware: version of the UEFI firmware.
        name: of the operating system, with its version.
        dgx_os: version of DGX OS, with that of its last update.
    """

    hostname: str = ""
    product: str = ""
    firmware: str = ""
    name: str = ""
    dgx_os: str = ""


def parse_system(lines: Iterable[str]) -> System:
    """Return the system that the lines of `SYSTEM_COMMAND` describe."""
    values = {
        key: value.strip().strip("\"'") for key, _, value in (x.partition("=") for x in lines)
    }
    versions = (values.get(f"DGX_{each}_VERSION", "") for each in ("SWBUILD", "OTA"))
    return System(
        hostname=values.get("hostname", ""),
        product=values.get("product_name", ""),
        firmware=values.get("bios_version", ""),
        name=values.get("PRETTY_NAME", ""),
        dgx_os=", updated to ".join(dict.fromkeys(filter(None, versions))),
    )
