"""Commands of operations, by a shell of this machine: what they keep, and what they delete."""

import subprocess
from pathlib import Path

import pytest

from sparkwright.engine.deploy import superseded_script
from sparkwright.machine.runtime import deploy as runtime
from sparkwright.machine.runtime.deploy import keep_previous
from tests.component.servers import fill, small_disk
from tests.programs import script


def keep(root: Path) -> int:
    command = keep_previous(str(root)).get_raw_value()
    return subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "daemon.json"
    monkeypatch.setattr(runtime, "DAEMON_JSON", str(file))
    return file


@pytest.mark.parametrize("before", ["{}", None])
def test_what_was_there_before_the_first_change_is_kept(
    tmp_path: Path, settings: Path, before: str | None
) -> None:
    if before is not None:
        settings.write_text(before)
    assert keep(tmp_path) == 0
    settings.write_text('{"ours": 1}')
    assert keep(tmp_path) == 0
    assert [file.read_text() for file in (tmp_path / "backups").iterdir()] == [before or ""]


def test_a_full_disk_keeps_no_half(tmp_path: Path, settings: Path) -> None:
    settings.write_text("{}")
    disk = tmp_path / "disk"
    with small_disk(disk):
        (disk / "backups").mkdir()
        fill(disk)
        assert keep(disk) != 0
        assert not (disk / "backups/daemon.json").exists()


def test_superseded_programs_go_once_systemd_knows_the_new_units(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    for name in ("old", "new"):
        (root / f"bin/sparkwright-host-{name}").touch()
    (root / "bin/sparkwright-host").symlink_to("sparkwright-host-new")
    systemctl = tmp_path / "tools/systemctl"
    systemctl.parent.mkdir()
    script(systemctl, f"#!/bin/sh\necho $* $(ls {root}/bin) > {tmp_path}/asked\n")
    path = f"{systemctl.parent}:/usr/bin:/bin"
    subprocess.run(["sh", "-c", superseded_script(str(root))], check=True, env={"PATH": path})
    asked = (tmp_path / "asked").read_text().split()
    assert asked[0] == "daemon-reload"
    assert "sparkwright-host-old" in asked
    assert {each.name for each in (root / "bin").iterdir()} == {
        "sparkwright-host",
        "sparkwright-host-new",
    }
