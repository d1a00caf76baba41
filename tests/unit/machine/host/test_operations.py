"""Secrets and packages: what travels how, what apt says, and what is left on a Spark."""

import getpass
import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from paramiko import SSHException
from pyinfra.api import HiddenValue, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.machine.host.operations import packages
from sparkwright.machine.host.operations.files import hub_token, secret_file
from sparkwright.machine.host.operations.packages import failure, install, parse_attempt
from tests.unit.driven import fake_host, file_of, here, placed

TOKEN = "hf_" + "s3cret" * 5


def token_file(text: str) -> dict[str, Any]:
    return {"placed": placed({"/r/secrets/hf-token": file_of(text, "600")})}


needs_root = pytest.mark.skipif(getpass.getuser() != "root", reason="the file belongs to root")


@needs_root
def test_writes_a_file_that_only_root_reads_once(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    arguments = {"path": str(path), "content": HiddenValue(f"{TOKEN}\n")}
    assert here().run(secret_file, **arguments).did_change()
    assert path.read_text() == f"{TOKEN}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert not here().run(secret_file, **arguments).did_change()
    path.chmod(0o644)
    assert here().run(secret_file, **arguments).did_change()
    assert path.stat().st_mode & 0o777 == 0o600


@needs_root
def test_what_is_not_to_be_is_removed_once(tmp_path: Path) -> None:
    path = tmp_path / "a key"
    path.write_text("s3cret\n")
    (tmp_path / "a key.new").write_text("s3cret\n")
    assert here().run(secret_file, path=str(path), content=None).did_change()
    assert list(tmp_path.iterdir()) == []
    assert not here().run(secret_file, path=str(path), content=None).did_change()
    path.mkdir()
    assert here().run(secret_file, path=str(path), content=None).did_error()


@needs_root
def test_what_fails_its_proof_leaves_the_previous_one(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("previous\n")
    proof = StringCommand(f"grep -q wanted {path}.new || {{ echo refused >&2; exit 1; }}")
    result = here().run(secret_file, path=str(path), content=HiddenValue("bad\n"), proof=proof)
    assert result.did_error()
    assert result.stderr == "refused"
    assert [file.name for file in tmp_path.iterdir()] == ["token"]
    assert path.read_text() == "previous\n"


def test_the_token_is_in_stdin_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    spark = fake_host(root="/r", hf_endpoint="http://hub.invalid")
    # Without a name, pyinfra prints the arguments: not even that tells it.
    assert spark.run(hub_token, token=HiddenValue(f" {TOKEN}\r\n")).did_change()
    assert [stdin for _, stdin in spark.commands if stdin] == [f"{TOKEN}\n"]
    assert not any(TOKEN in script for script in spark.scripts())
    assert TOKEN not in caplog.text
    proof = spark.scripts()[-1]
    assert "HF_ENDPOINT=http://hub.invalid HF_TOKEN_PATH=/r/secrets/hf-token.new" in proof


def test_a_token_in_place_is_not_proved_again() -> None:
    spark = fake_host(state=token_file(f"{TOKEN}\n"), root="/r")
    assert not spark.run(hub_token, token=HiddenValue(TOKEN)).did_change()
    assert spark.commands == []


def test_without_a_token_downloads_are_anonymous(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert not fake_host(root="/r").run(hub_token, token=None).did_change()
    assert "downloads are anonymous, and limited in rate" in caplog.text
    caplog.clear()
    assert not fake_host(state=token_file("x"), root="/r").run(hub_token, token=None).did_change()
    assert "anonymous" not in caplog.text
    spark = fake_host(state=token_file("x"), root="/r", hf_token="none")
    assert spark.run(hub_token, token=None).did_change()
    assert spark.scripts()[-1] == "rm -f /r/secrets/hf-token /r/secrets/hf-token.new"
    assert "downloads are anonymous" in caplog.text


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
        ("E: Something else", "Then run again"),
    ],
)
def test_what_apt_cannot_do_comes_with_a_remedy(said: str, remedy: str) -> None:
    told = failure([said])
    assert told.startswith(said)
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
