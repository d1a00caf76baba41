"""What `make bench` makes of the output of tools."""

import sys

import pytest

from tests.benchmarks.fleet import ToolError, alike, check_unchanged, measured

RESULTS = """\
--> Results:
    Operation                      Hosts   Success   Error   No Change   
    Preflight | Fit to serve       4       -         -       4           
    Engine | Serve the release     4       {}           
    Grand total                    8       -         -       8           

--> Disconnecting from hosts...
"""  # noqa: W291


def test_a_run_that_changed_nothing_is_measured() -> None:
    check_unchanged(RESULTS.format("-         -       4"), 4)


@pytest.mark.parametrize(
    ("row", "hosts"),
    [
        ("1         -       3", 4),
        ("-         1       3", 4),
        ("-         -       4", 5),
    ],
    ids=["a change", "an error", "a host is missing"],
)
def test_a_run_that_did_something_else_ends_the_benchmark(row: str, hosts: int) -> None:
    with pytest.raises(ToolError, match=f"of {hosts} hosts: .*{row[:1]}"):
        check_unchanged(RESULTS.format(row), hosts)


def test_output_without_results_ends_the_benchmark() -> None:
    with pytest.raises(ToolError, match="no results"):
        check_unchanged("--> Connecting to hosts...", 1)


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
