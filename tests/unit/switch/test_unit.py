"""The unit, and what the program takes from files that others write."""

import subprocess
from pathlib import Path

from tests.unit.switch import FILES
from tests.unit.test_release import release


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    text = (FILES / "switch/switch@.service").read_text().replace("ROOT", "/opt/qwen36")
    (tmp_path / "switch@.service").write_text(text)
    for name in ("docker.service", "sysinit.target", "basic.target", "shutdown.target"):
        unit = "[Service]\nExecStart=/bin/true\n" if name.endswith("service") else "[Unit]\n"
        (tmp_path / name).write_text(unit)
    verify = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "switch@x.service"],
        cwd=tmp_path,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert verify.stderr == ""
    assert verify.returncode == 0


def test_a_release_says_which_image_it_takes_before_it_takes_it(tmp_path: Path) -> None:
    """A switch runs this part of it alone."""
    before, engine, _ = release().files["run"].partition("\nexec ")
    assert engine
    for said, status, output in (("echo sha256:1234", 0, "sha256:1234\n"), ("exit 1", 1, "")):
        docker = tmp_path / "docker"
        docker.write_text(f"#!/bin/sh\n{said}\n")
        docker.chmod(0o755)
        done = subprocess.run(
            ["sh", "-c", f'{before}\nprintf "%s\\n" "$image"'],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (status, output)
