"""Verification by the package's entry point for pytest: tests that are found, and bad use."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import ended, script

PROJECT = Path(__file__).parents[2]
INVENTORY = """\
from pathlib import Path
from sparkwright.run.inventory.groups import for_pyinfra
globals().update(for_pyinfra(Path(__file__).resolve().parent, Path("sparks.yaml")))
web = ["web.example.org"]
"""
# Nothing listens on port 1.
SPARKS = """\
sparks:
  spark-a: {ssh_hostname: 127.0.0.1, ssh_port: 1, hardware: lab}
replicas:
  chat: {recipe: lab-tiny, sparks: [spark-a], trusts: [tool-parser-plugin]}
"""
OTHER_OPTION = """\
def pytest_addoption(parser):
    parser.addoption("--inventory", default="of the warehouse")
"""
OTHER_TEST = """\
import sys

def test_option(request):
    assert request.config.getoption("--inventory") == "of the warehouse"
    assert not request.config.pluginmanager.has_plugin("sparkwright.verify.plugin")
    assert not {"pyinfra", "sparkwright.verify.plugin"} & sys.modules.keys()
"""

Pytest = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def project(folder: Path) -> Path:
    """A pyinfra project of a Spark and another host, without group data."""
    (folder / "inventory.py").write_text(INVENTORY)
    (folder / "sparks.yaml").write_text(SPARKS)
    return folder


@pytest.fixture
def run(tmp_path: Path, folder: Path) -> Pytest:
    """Run pytest in the folder, as if the package were installed."""
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["entry-points"]
    installed = tmp_path / "packages/sparkwright-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: sparkwright\nVersion: 0\n")
    entries = (f"{name} = {module}\n" for name, module in declared["pytest11"].items())
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{''.join(entries)}")

    def pytest_(*words: str) -> "subprocess.CompletedProcess[str]":
        own = {"PYTHONPATH": f"{installed.parent}:{PROJECT}", "COLUMNS": "200"}
        line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
        return ended(line, cwd=folder, env=os.environ | own)

    return pytest_


def refused(run: Pytest, *words: str) -> str:
    """Verify, which must be refused; what is said of it."""
    done = run("--pyargs", "sparkwright.verify", *words)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert done.stdout == ""
    return done.stderr.removeprefix("ERROR: ").strip()


def test_an_empty_folder(run: Pytest, folder: Path) -> None:
    assert refused(run) == (
        f"found no file inventory.py in {folder}; expected the root of a pyinfra project, or "
        "another inventory: --inventory FILE"
    )


def test_an_inventory_without_a_spark(run: Pytest, folder: Path) -> None:
    (folder / "web.py").write_text('web = ["web.example.org"]\n')
    assert refused(run, "--inventory", "web.py") == (
        "web.py: found no Spark in it; expected an inventory that calls "
        "sparkwright.run.inventory.groups.for_pyinfra"
    )


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "two"])
def test_where_no_spark_answers_a_line_for_each_is_all(
    run: Pytest, project: Path, words: tuple[str, ...]
) -> None:
    second = "  spark-b: {ssh_hostname: 127.0.0.1, ssh_port: 2, hardware: lab}\nreplicas:"
    (project / "sparks.yaml").write_text(SPARKS.replace("replicas:", second))
    done = run("--pyargs", "sparkwright.verify", *words)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stderr
    for name, port in (("spark-a", 1), ("spark-b", 2)):
        words = f"{name}: found no way in as root: ssh: connect to host 127.0.0.1 port {port}: "
        assert words in done.stderr
    assert len((done.stdout + done.stderr).splitlines()) <= 10
    assert sorted(path.name for path in project.iterdir()) == ["inventory.py", "sparks.yaml"]


def test_of_two_sparks_the_silent_one_fails_once(
    run: Pytest, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine answers, and was never deployed."""
    sudo = tmp_path / "bin/sudo"
    sudo.parent.mkdir()
    script(sudo, '#!/bin/sh\nexec "$@"\n')
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    own = "sparks:\n  spark-l: {local: true, hardware: lab}\n"
    (project / "sparks.yaml").write_text(SPARKS.replace("sparks:\n", own, 1))
    record = ("--record", str(project / "record.yaml"))
    done = run("--pyargs", "sparkwright.verify.test_host", "-rs", "--tb=short", *record)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert done.stdout.count("spark-a: found no way in as root: ssh: connect to host") == 1
    assert re.search(r"SKIPPED \[\d+\] .*: spark-a does not answer", done.stdout)
    assert "record.yaml: not written, as not all holds" in done.stdout
    assert not (project / "record.yaml").exists()


def test_another_run_of_pytest_notices_nothing(run: Pytest, folder: Path) -> None:
    (folder / "conftest.py").write_text(OTHER_OPTION)
    (folder / "test_other.py").write_text(OTHER_TEST)
    done = run()
    assert done.returncode == 0, done.stdout
    assert "plugins: " in done.stdout
    assert "sparkwright-0" in done.stdout
