"""The unit, and what the program takes from files that others write."""

import subprocess
import sys
from pathlib import Path

from deploys.plan.files import ManagedFile
from deploys.steps.engine import programs
from tests.unit.switch import FILES
from tests.unit.test_release import release
from tests.unit.units import complaints, written


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


def test_all_that_the_programs_import_travels_with_them(tmp_path: Path) -> None:
    for entry in programs("/opt/qwen36"):
        assert isinstance(entry, ManagedFile)
        if entry.path.startswith("/opt/qwen36/bin/"):
            (tmp_path / Path(entry.path).name).write_text(entry.text)
    words = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import engine, switch"
    done = subprocess.run([sys.executable, "-I", "-B", "-c", words], capture_output=True, text=True)
    assert done.stderr == ""


def test_no_program_in_the_folder_of_all_hides_another() -> None:
    """They lie in one folder, the first in which each of them looks for what it imports."""
    folders = ("benchmark", "door", "engine", "jobs", "monitoring", "rollout", "share", "switch")
    names = [path.stem for folder in folders for path in (FILES / folder).glob("*.py")]
    assert sorted(set(names)) == sorted(names)
    assert sys.stdlib_module_names.isdisjoint(names)
