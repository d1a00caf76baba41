"""What of a hub is taken, who gets the token, and which host key counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.fleet import Spark
from sparkwright.plan.release.lock import CheckpointLock
from sparkwright.plan.release.token import Hub
from sparkwright.run.ssh import cause
from tests.component import command_line
from tests.component.sshd import machines
from tests.security.hostile import BY_SSH, SPEAKERS


@pytest.mark.parametrize("name", [".sparkwright.json", ".sparkwright-partial/x", ".sparkwright/x"])
def test_a_listing_with_our_own_names_is_refused(name: str) -> None:
    listing = {"repo": "a/b", "commit": "0" * 40, "files": {name: {"size": 1, "git": "0" * 40}}}
    with pytest.raises(ValueError, match="these are Sparkwright's own"):
        CheckpointLock.model_validate(listing)


@pytest.mark.parametrize(
    ("endpoint", "setting", "sent"),
    [
        ("https://huggingface.co", "https", True),
        ("http://127.0.0.1:8090", "https", True),
        ("http://localhost", "https", True),
        ("http://[::1]/", "https", True),
        ("http://192.168.1.5", "http", True),
        ("https://huggingface.co", "none", False),
        ("http://192.168.1.5", "none", False),
    ],
)
def test_who_gets_the_token(
    endpoint: str, setting: str, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkwright.plan.release.token.own_token", lambda: "hf_x")
    assert Hub(endpoint, setting).token() == ("hf_x" if sent else None)


@pytest.mark.parametrize(
    "endpoint",
    ["http://192.168.1.5", "http://hub", "ftp://127.0.0.2.example", "HTTP://127.evil", "x"],
)
def test_no_token_in_the_clear(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkwright.plan.release.token.own_token", lambda: "hf_x")
    with pytest.raises(PlanError, match="unencrypted; expected https"):
        Hub(endpoint).token()
    monkeypatch.setattr("sparkwright.plan.release.token.own_token", lambda: None)
    assert Hub(endpoint).token() is None


def test_a_host_key_that_nobody_knows_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "deploy.py").write_text(SPEAKERS)
    (tmp_path / "known_hosts").touch()
    with machines(tmp_path, "brief") as sparks:
        inventory = BY_SSH.replace("PORTS", repr([("brief", sparks["brief"].port)]))
        strict = Spark(ssh_strict_host_key_checking="yes").connection
        inventory = inventory.replace("user-key", f"{tmp_path}/user-key")
        inventory = inventory.replace('"spark": name,', f'"spark": name, **{strict},')
        (tmp_path / "inventory.py").write_text(inventory)
        status, said = command_line.run(tmp_path, "-y")
    assert status == 1
    assert "brief said" not in said
    assert (tmp_path / "known_hosts").read_text() == ""
    (refused,) = re.findall(r"StrictPolicy.*", said)[:1]
    assert "the inventory takes no other" in cause(refused)
