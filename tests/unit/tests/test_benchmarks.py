"""What `make bench` makes of the output of tools, and the page that it writes."""

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.benchmarks.no_op import AIMS, LOGIN, OURS
from tests.benchmarks.page import PAGE, write_page
from tests.benchmarks.tools import ToolError, check_recap, check_unchanged, measured

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


def _cost(seconds: float) -> dict[str, float]:
    return {"seconds": seconds, "cpu": seconds / 2, "memory": 2**20}


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
