"""A folder that a real apt takes for the whole system."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.machine.host.operations import packages

needs_apt = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "apt-ftparchive", "dpkg-deb", "gpg"))),
    reason="needs apt-get, apt-ftparchive, dpkg-deb and gpg",
)
_CONFIG = """\
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "{0}/sources";
Dir::State::Lists "{0}/lists";
Dir::State::status "{0}/var/lib/dpkg/status";
Dir::State::extended_states "{0}/extended_states";
Dir::Cache "{0}/cache";
Dir::Log "{0}/log";
Dpkg::Options {{ "--root={0}"; "--force-not-root"; "--force-script-chrootless"; }};
APT::Sandbox::User "root";
Acquire::http::Proxy "DIRECT";
Acquire::Retries "0";
"""


@operation()
def installed(package: str) -> Generator[PyinfraCommand]:
    yield packages.install(package)


def apt_root(tmp_path: Path, patch: pytest.MonkeyPatch, status: str = "") -> Path:
    """Have apt and dpkg of this process take a new folder, by what dpkg knows, and return it."""
    folder = tmp_path / "root"
    for name in ("sources", "lists/partial", "cache/archives/partial", "log"):
        (folder / name).mkdir(parents=True)
    for name in ("info", "updates", "triggers"):
        (folder / "var/lib/dpkg" / name).mkdir(parents=True)
    (folder / "var/lib/dpkg/status").write_text(status)
    (folder / "apt.conf").write_text(_CONFIG.format(folder))
    patch.setenv("APT_CONFIG", str(folder / "apt.conf"))
    patch.setenv("DPKG_ROOT", str(folder))
    patch.setattr(packages, "_ATTEMPT", packages._ATTEMPT.replace("/run/lock", str(tmp_path)))
    patch.setattr(packages, "_updated", set())
    return folder
