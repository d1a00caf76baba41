"""The unit, and what the program takes from files that others write."""

import subprocess
import sys
from pathlib import Path

from sparkwright.common.files import ManagedFile
from sparkwright.engine.deploy import programs
from tests.component.switch import FILES
from tests.component.units import complaints, written
from tests.unit.release.test_release import release


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
    assert _imported(tmp_path, "switch") == ""


def test_all_that_runs_an_engine_travels_with_its_release(tmp_path: Path) -> None:
    """Whatever a later deploy puts beside it, a release has its own."""
    (tmp_path / "bin").mkdir()
    for name, text in release().files.items():
        (tmp_path / name).write_text(text)
    assert _imported(tmp_path / "bin", "engine") == ""


def _imported(folder: Path, program: str) -> str:
    """Return what Python complains of when it imports a program from a folder."""
    words = f"import sys; sys.path.insert(0, {str(folder)!r}); import {program}"
    done = subprocess.run([sys.executable, "-I", "-B", "-c", words], capture_output=True, text=True)
    return done.stderr


def test_no_program_in_the_folder_of_all_hides_another() -> None:
    """They lie in one folder, the first in which each of them looks for what it imports."""
    folders = ("benchmark", "door", "engine", "jobs", "monitoring", "rollout", "share", "switch")
    names = [path.stem for folder in folders for path in (FILES / folder).glob("*.py")]
    assert sorted(set(names)) == sorted(names)
    assert sys.stdlib_module_names.isdisjoint(names)
