"""The programs that other versions have left behind on a Spark."""

import subprocess
from pathlib import Path

from sparkwright.engine.deploy import superseded_script
from tests.programs import script


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
