"""Commands of operations, by a shell of this machine: what they keep, and what they delete."""

from pathlib import Path

import pytest

from sparkwright.engine.deploy import superseded_script
from sparkwright.machine.runtime import deploy as runtime
from sparkwright.machine.runtime.deploy import keep_previous
from tests.component.servers import fill, small_disk
from tests.makers.shell import program, shell


def keep(root: Path) -> int:
    return shell(keep_previous(str(root)).get_raw_value(), check=False).returncode


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
    program(tmp_path / "systemctl", f"echo $* $(ls {root}/bin) > {tmp_path}/asked")
    shell(superseded_script(str(root)), tmp_path)
    asked = (tmp_path / "asked").read_text().split()
    assert asked[0] == "daemon-reload"
    assert "sparkwright-host-old" in asked
    left = sorted(each.name for each in (root / "bin").iterdir())
    assert left == ["sparkwright-host", "sparkwright-host-new"]
