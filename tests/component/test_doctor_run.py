"""The doctor's report for an issue, by the real pyinfra on this machine."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.programs import script

PROJECT = Path(__file__).parents[2]
INVENTORY = """
_data = {"_sudo": False, "root": ROOT, "fleet": FLEET, "hardware": "lab", "api_key": None}
_data |= {"replica": "lawyers", "recipe": "lab-tiny", "ranks": ("rack-a",), "rank": 0}
sparks = [("@local", {"spark": "rack-a", "port": 8000, **_data})]
"""
FLEET = """\
sparks:
  rack-a: {local: true, hardware: lab}
  rack-b: {ssh_hostname: 192.0.2.77, hardware: lab}
replicas:
  lawyers: {recipe: lab-tiny, sparks: [rack-a], trusts: [tool-parser-plugin]}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with an inventory of this machine."""
    (tmp_path / "sparks.yaml").write_text(FLEET)
    settings = f"ROOT = {str(tmp_path / 'root')!r}\nFLEET = {str(tmp_path / 'sparks.yaml')!r}\n"
    (tmp_path / "hosts.py").write_text(settings + INVENTORY)
    # What asks whether sudo may be used.
    (tmp_path / "bin").mkdir()
    script((tmp_path / "bin/sudo"), "#!/bin/sh\nexit 0\n")
    return tmp_path


def doctor(site: Path, *words: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PATH": f"{site / 'bin'}:{os.environ['PATH']}"}
    line = [site / "hosts.py", "deploys/doctor.py", *words]
    done = forked.run(line, cwd=PROJECT, env=environment)
    assert done.returncode == status, done.stderr
    return done


def test_a_report_goes_to_a_file_that_others_cannot_read(site: Path) -> None:
    path = site / "new/report.md"
    done = doctor(site, "-y", "--data", f"report={path}")
    assert f"the report is in {path}" in done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "| Sparks | `1 of 2 in the inventory` |\n" in text
    assert "\n## spark1\n" in text
    assert "| recipe | `lab-tiny` |\n" in text
    assert f"| kernel | `{os.uname().release}` |\n" in text
    for private in ("rack-", "lawyers", "192.0.2", os.uname().nodename, str(site)):
        assert private not in text


def test_to_standard_output_with_the_lines_for_people_beside_it(site: Path) -> None:
    done = doctor(site, "-y", "--data", "report=-")
    assert done.stdout.startswith("# What the doctor found\n")
    assert done.stdout.count("## spark1") == 1
    assert "looked at" in done.stderr


def test_a_dry_run_makes_no_file(site: Path) -> None:
    before = sorted(site.rglob("*"))
    doctor(site, "--dry", "--data", f"report={site / 'report.md'}")
    assert sorted(site.rglob("*")) == before


def test_a_spark_that_cannot_be_read_is_in_the_report(site: Path) -> None:
    downs = site / "root/state/hard-downs"
    downs.parent.mkdir(parents=True)
    downs.write_text("not JSON")
    path = site / "report.md"
    done = doctor(site, "-y", "--data", f"report={path}", status=1)
    assert "checkup: JSONDecodeError" in done.stderr
    assert path.read_text().endswith("It could not be read; the run said why.\n")
