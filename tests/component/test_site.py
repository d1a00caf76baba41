"""A site as `sparkwright init` writes it, read by the real pyinfra."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparkwright.cli.new_site import inventory_text, site_files, write_site
from sparkwright.declared.fleet.fleet import Spark
from tests import forked
from tests.clock import patience

PROJECT = Path(__file__).parents[2]
# Nothing listens there.
SILENT = Spark(ssh_hostname="127.0.0.1", ssh_user="me", ssh_port=9)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site whose only Spark is this machine."""
    inventory = inventory_text([Spark(local=True)], "mine", False)
    write_site(tmp_path, site_files("x", inventory))
    own = tmp_path / "files/recipes/mine.yaml"
    own.write_text(
        "extends: qwen3.6-35b-nvidia\ndescription: Ours.\nproven: By us.\nsource: Ours.\n"
    )
    return tmp_path


def hosts(site: Path, **environment: str) -> list[dict[str, object]]:
    own = os.environ | {"PYTHONPATH": str(PROJECT)} | environment
    done = forked.run(("--json", "inventory.py", "debug-inventory"), cwd=site, env=own)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("deploy", ["status", "drift"])
def test_machines_get_json_also_where_no_spark_answers(site: Path, deploy: str) -> None:
    silent = inventory_text([SILENT], "mine", False)
    (site / "inventory/sparks.yaml").write_text(silent)
    own = os.environ | {"PYTHONPATH": str(PROJECT), "HOME": str(site)}
    words = ("inventory.py", f"deploys/{deploy}.py", "--data", "json=-")
    done = forked.run(words, cwd=site, env=own)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    found = json.loads(done.stdout)
    assert "spark-a" in json.dumps(found)


@pytest.mark.parametrize(("variable", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_it_asks_for_none(
    site: Path, variable: str, coloured: bool
) -> None:
    silent = inventory_text([SILENT], "mine", False)
    (site / "inventory/sparks.yaml").write_text(silent)
    own = os.environ | {"PYTHONPATH": str(PROJECT), "HOME": str(site), "NO_COLOR": variable}
    line = f"{sys.executable} -m sparkwright status"
    done = subprocess.run(
        ["script", "--quiet", "--return", "--command", f"stty cols 80; {line}", "/dev/null"],
        cwd=site,
        env=own | {"TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 1, done.stdout
    # A spinner clears its line, in any case.
    assert bool(re.search(r"\x1b\[[0-9;]+m", done.stdout)) == coloured
    table = [line for line in done.stdout.splitlines() if line.startswith(("spark ", "spark-a "))]
    assert table
    assert max(map(len, table)) <= 80


def test_another_inventory_has_settings_and_files_of_its_own(site: Path) -> None:
    staging = (site / "inventory/sparks.yaml").read_text().replace("chat:", "trial:")
    (site / "inventory/staging.yaml").write_text(staging)
    (site / "group_data/staging.py").write_text("keep_releases = 7\n")
    (host,) = hosts(site, SPARKWRIGHT_INVENTORY="staging")
    data = host["data"]
    assert isinstance(data, dict)
    assert (data["replica"], data["fleet"]) == ("trial", "inventory/staging.yaml")
    assert data["keep_releases"] == 7
    (production,) = hosts(site)
    # A recipe of the site is found by its name.
    assert production["data"]["recipe"] == "mine"  # type: ignore[index]
    assert "keep_releases" not in production["data"]  # type: ignore[operator]
    assert sorted(path.name for path in (site / "inventory").iterdir()) == [
        "sparks.yaml",
        "staging.yaml",
    ]
