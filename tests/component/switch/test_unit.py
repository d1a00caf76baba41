"""What the program takes from files that others write."""

import subprocess
from pathlib import Path

from tests.makers.release import release
from tests.programs import script


def test_a_release_says_which_image_it_takes_before_it_takes_it(tmp_path: Path) -> None:
    """A switch runs this part of it alone."""
    before, engine, _ = release().files["run"].partition("\nexec ")
    assert engine
    for said, status, output in (("echo sha256:1234", 0, "sha256:1234\n"), ("exit 1", 1, "")):
        docker = tmp_path / "docker"
        script(docker, f"#!/bin/sh\n{said}\n")
        done = subprocess.run(
            ["sh", "-c", f'{before}\nprintf "%s\\n" "$image"'],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (status, output)
