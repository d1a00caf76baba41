"""The archives of programs: what is in them, and that they are the same everywhere."""

import ast
import os
import stat
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from host.command import COMMANDS
from sparkwright.common.files import ManagedFile, Symlink
from sparkwright.plan.release.programs import (
    HOST_FILES,
    _imports,
    program,
    program_files,
    spark_programs,
)
from tests.clock import patience
from tests.programs import host_program


def _members(archive: bytes) -> set[str]:
    return set(zipfile.ZipFile(BytesIO(archive)).namelist())


def test_the_same_files_make_the_same_bytes(tmp_path: Path) -> None:
    """On another machine, in another folder, with other dates and rights."""
    made = "from sparkwright.plan.release.programs import *; import hashlib; "
    made += "print(*(hashlib.sha256(it).hexdigest() for it in "
    made += "(spark_programs(), program('host.engine.supervisor'))))"
    for name in ("one", "two"):
        copy = ["cp", "-r", str(HOST_FILES.parent.parent / "sparkwright"), str(HOST_FILES.parent)]
        (tmp_path / name).mkdir()
        subprocess.run([*copy, str(tmp_path / name)], check=True)
    for path in (tmp_path / "two/files").rglob("*.py"):
        os.utime(path, (0, 0))
        path.chmod(stat.S_IRUSR)
    hashes = {
        subprocess.run(
            [sys.executable, "-B", "-c", made],
            cwd=tmp_path / name,
            env={"PYTHONPATH": str(tmp_path / name), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in ("one", "two")
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("path", sorted(HOST_FILES.rglob("*.py")), ids=lambda path: path.name)
def test_the_imports_of_a_program_are_those_that_python_sees(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    seen = [f"{node.module}.{alias.name}" for node in froms for alias in node.names]
    assert sorted(_imports(path)) == sorted(name for name in seen if name.startswith("host."))
    # No other form of import would be found.
    others = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    assert not [name for name in others if name.split(".")[0] == "host"]


def test_an_engine_has_what_it_imports_and_no_more() -> None:
    """What else changes in the programs of a Spark makes no other release."""
    members = _members(program("host.engine.supervisor"))
    assert {"host/engine/peer_link.py", "host/common/probe.py", "__main__.py"} <= members
    others = ("host/engine/switch", "host/artifacts")
    assert not [name for name in members if name.startswith(others)]
    assert members < _members(spark_programs())
    # A Spark has all but the gateway.
    there = {path.relative_to(HOST_FILES.parent).as_posix() for path in HOST_FILES.rglob("*.py")}
    left = there - _members(spark_programs())
    assert {name.rpartition("/")[0] for name in left} == {"host/door/gateway"}


def run(*words: object) -> "subprocess.CompletedProcess[str]":
    options = {"capture_output": True, "text": True, "timeout": patience()}
    return subprocess.run(words, stdin=subprocess.DEVNULL, check=False, **options)


@pytest.mark.parametrize("module", ["host.engine.supervisor", "host.engine.switch.course"])
def test_an_archive_alone_is_enough(module: str, tmp_path: Path) -> None:
    """The system's Python is told of nothing else."""
    file = tmp_path / "program"
    file.write_bytes(program(module))
    done = run(sys.executable, "-I", "-S", "-B", file, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: " in done.stdout


def test_each_subcommand_says_what_it_is_for() -> None:
    listing = run(*host_program("--help"))
    for name in COMMANDS:
        assert f"\n  {name} " in listing.stdout
        done = run(*host_program(name, "--help"))
        assert (done.returncode, done.stderr) == (0, ""), name
        assert name in done.stdout
    # Another word is refused with those that there are.
    done = run(*host_program("engines"))
    assert done.returncode == 2
    assert "invalid choice: 'engines' (choose from 'engine', 'switch'" in done.stderr


def test_a_new_version_takes_the_place_of_the_old_one_in_one_step() -> None:
    file, link, command = program_files("/r")
    assert isinstance(file, ManagedFile)
    assert isinstance(link, Symlink)
    assert file.path.startswith("/r/bin/sparkwright-host-")
    assert (link.path, f"/r/bin/{link.target}") == ("/r/bin/sparkwright-host", file.path)
    assert command == Symlink("/usr/local/bin/sparkwright-host", link.path)
