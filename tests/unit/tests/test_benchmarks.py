"""What `make bench` makes of the output of tools, and the page that it writes."""

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from tests.benchmarks.ansible import PLAYBOOK
from tests.benchmarks.fleet import alike
from tests.benchmarks.no_op import AIMS, LOGIN, OURS
from tests.benchmarks.page import PAGE, filled, write_page
from tests.benchmarks.tools import (
    REQUIREMENTS,
    ToolError,
    check_recap,
    check_unchanged,
    machine,
    measured,
)

RESULTS = """\
--> Results:
    Operation                      Hosts   Success   Error   No Change   \n\
    Preflight | Fit to serve       4       -         -       4           \n\
    Engine | Serve the release     4       {}           \n\
    Grand total                    8       -         -       8           \n\

--> Disconnecting from hosts...
"""
RECAP = """\
TASK [Folders] *****************************************************************
ok: [spark1] => (item=/opt/qwen36)
{}: [spark1] => (item=/opt/qwen36/bin)

TASK [Clock] *******************************************************************
ok: [spark1]

PLAY RECAP *********************************************************************
spark1                     : ok=2    changed={}    unreachable=0    failed={}    skipped=0    \
rescued=0    ignored=0
"""


@pytest.mark.parametrize(
    ("check", "output", "count", "message"),
    [
        (check_unchanged, RESULTS.format("-         -       4"), 4, ""),
        (check_unchanged, RESULTS.format("1         -       3"), 4, "of 4 hosts: "),
        (check_unchanged, RESULTS.format("-         1       3"), 4, "of 4 hosts: "),
        (check_unchanged, RESULTS.format("-         -       4"), 5, "of 5 hosts: "),
        (check_unchanged, "--> Connecting to hosts...", 1, "no results"),
        (check_recap, RECAP.format("ok", 0, 0), 2, ""),
        (check_recap, RECAP.format("changed", 1, 0), 2, "of 2 tasks on spark1: .*Folders"),
        (check_recap, RECAP.format("fatal", 0, 1), 2, "of 2 tasks on spark1: .*Folders"),
        (check_recap, RECAP.format("ok", 0, 0), 3, "of 3 tasks on spark1: "),
        (check_recap, "ERROR! the playbook: nothing.yaml could not be found", 1, "no recap"),
    ],
)
def test_what_did_something_else_ends_the_benchmark(
    check: Callable[[str, int], None], output: str, count: int, message: str
) -> None:
    with pytest.raises(ToolError, match=message) if message else nullcontext():
        check(output, count)


def test_the_cost_of_a_command_includes_what_it_started() -> None:
    busy = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    cost, _ = measured([sys.executable, "-c", child])
    assert cost.cpu > 0.2
    assert cost.seconds > 0.2
    assert cost.memory > 2**20


def test_a_command_that_fails_ends_the_benchmark() -> None:
    with pytest.raises(ToolError, match=r"(?s)exit status 3.*no luck"):
        measured([sys.executable, "-c", "print('no luck'); raise SystemExit(3)"])


def test_hosts_of_one_spark_differ_by_address_only() -> None:
    def host(number: int) -> tuple[str, dict[str, object]]:
        name = f"spark{number}"
        data = {"spark": name, "replica": f"lab{number}", "ranks": [name], "rank": 0}
        return name, data | {"ssh_hostname": f"10.213.0.{number}"}

    groups = alike({"sparks": [host(1), host(2)], "lab2": [host(2)]})
    assert groups["sparks"][0] == host(1)
    assert groups["lab2"] == [("spark2", {**host(1)[1], "ssh_hostname": "10.213.0.2"})]


def test_the_playbook_writes_nothing_by_command() -> None:
    """A task that runs a command reports a change, unless it is told that it only looks."""
    (play,) = yaml.safe_load(PLAYBOOK.read_text())
    commands = [task for task in play["tasks"] if "ansible.builtin.command" in task]
    assert len(commands) > 5
    assert [task["name"] for task in commands if task.get("changed_when") is not False] == []


def test_the_requirements_are_pinned_and_hashed() -> None:
    text = REQUIREMENTS.read_text()
    assert "://" not in text
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", " "))]
    assert [line for line in lines if "==" not in line or not line.endswith("\\")] == []
    assert {"ansible-core", "mitogen"} <= machine().keys()


def _cost(seconds: float) -> dict[str, float]:
    return {"seconds": seconds, "cpu": seconds / 2, "memory": 2**20}


def test_a_section_of_the_page_is_made_anew_and_all_else_stays() -> None:
    page = "a\n<!-- x: by make bench -->\nold\n<!-- end of x -->\nz\n"
    once = filled(page, "x", "new\n")
    assert once == "a\n<!-- x: by make bench -->\n\nnew\n\n<!-- end of x -->\nz\n"
    assert filled(once, "x", "new\n") == once
    with pytest.raises(ValueError, match="y: by make bench"):
        filled(page, "y", "new")


def test_the_page_takes_the_figures_of_every_section(tmp_path: Path) -> None:
    table = {LOGIN: _cost(0.5), OURS: _cost(2.25), "Ansible": _cost(30)}
    no_op = {"rounds": 5, "aims": AIMS, "tasks": 27, "items": 70, "machine": {"kernel": "6.1"}}
    far = {LOGIN: _cost(1), OURS: _cost(3.15), "Ansible": _cost(60)}
    figures = {
        "no-op": {**no_op, "tables": {"on a LAN": table, "far away": far}},
        "fleet": {"1": _cost(2), "64": _cost(23)},
    }
    write_page(tmp_path, json.loads(json.dumps(figures)))
    page = (tmp_path / PAGE.name).read_text()
    for text in (
        "| ours | 2.25 |",
        f"| Ansible | 30.00 | 15.00 | 60.0 | 13.3 | {AIMS['Ansible']} |",
        "| 64 | 11.5 |",
        "takes 0.17 CPU",
    ):
        assert text in page
    assert "a login takes 10 round trips, and a run of ours 18" in page
