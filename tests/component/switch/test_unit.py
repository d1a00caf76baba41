"""The unit, and what the program takes from files that others write."""

import subprocess
from pathlib import Path

from tests.component.switch import FILES
from tests.component.units import complaints, written
from tests.makers.release import release


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    written(FILES / "switch/switch@.service", tmp_path, {})
    assert complaints(tmp_path, "switch@x.service") == ""


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
