"""What apt says, in words for people; a connection that breaks while it is at work."""

from collections.abc import Generator
from typing import Any

import pytest
from paramiko import SSHException
from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.machine.host.operations import packages
from sparkwright.machine.host.operations.packages import failure, install, parse_attempt
from tests.unit.driven import fake_host


@operation()
def installed(**arguments: Any) -> Generator[PyinfraCommand]:
    """Have a package."""
    yield install("earlyoom", **arguments)


def test_an_answer_without_an_end_is_none() -> None:
    with pytest.raises(ValueError, match="apt's exit status is unknown: found updated"):
        parse_attempt(["@@updated", "W: x"])


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("E: The list of sources could not be read.", "disagree"),
        ("E: dpkg was interrupted, you must manually run", "`sudo dpkg --configure -a`"),
        ("dpkg: error processing package nvidia-dkms (--configure):", "`sudo dpkg --configure"),
        ("E: Unmet dependencies. Try 'apt --fix-broken install'", "--fix-broken install"),
        ("E: Unable to locate package earlyoom", "No source has it"),
        ("E: Failed to fetch http://a Temporary failure resolving 'a'", "check the network"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "`df -h`"),
        ("E: Something else", "Then run again"),
    ],
)
def test_what_apt_cannot_do_comes_with_a_remedy(said: str, remedy: str) -> None:
    told = failure("earlyoom", [said])
    assert told.startswith(f"earlyoom is not installed: {said}")
    assert remedy in told


def test_a_connection_that_breaks_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise SSHException("SSH session not active")

    monkeypatch.setattr(packages, "run_now", broken)
    assert not fake_host(root="/r").run(installed).did_succeed()
    assert "run again to wait for it" in caplog.text
    assert "Traceback" not in caplog.text


def test_what_is_there_already_takes_no_apt() -> None:
    host = fake_host({"import ensurepip": "yes"}, root="/r")
    assert host.run(installed, unless="python3 -c 'import ensurepip'").did_succeed()
    assert "apt-get" not in "".join(host.scripts())
