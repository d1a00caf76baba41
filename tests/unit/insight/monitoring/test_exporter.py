"""The node exporter with its units, and what Prometheus keeps where two replicas share a Spark."""

import re
from pathlib import Path

import pytest
import yaml

from sparkwright.common.placed import EXPORTER_DEFAULTS
from sparkwright.common.ports import METRICS_PORT
from sparkwright.declared.fleet.fabric_plan import fabric_plan
from sparkwright.declared.fleet.fleet import Fleet, Replica, Spark
from sparkwright.declared.fleet.settings import Settings
from sparkwright.insight.monitoring.deploy import metrics_units, node_exporter, stopped
from sparkwright.insight.monitoring.node_exporter import (
    SOCKET,
    TIMER,
    exporter_defaults,
    foreign_exporter,
    foreign_script,
)
from sparkwright.insight.monitoring.targets import prometheus_config, targets
from tests.makers.shell import program, shell
from tests.unit.driven import fake_host, said_of_file

FILES = Path(__file__).parents[4] / "files" / "host" / "insight" / "monitoring"
ROOT = "/opt/qwen36"


def test_units_know_root_and_fabric() -> None:
    fabric = fabric_plan(
        "b", ["a", "b"], ("192.168.100.0/24", "192.168.101.0/24"), mtu=9000, bandwidth_minimum=80
    )
    names = ("spark-metrics.timer", "spark-metrics.service", "fabric-metrics.socket")
    texts = {Path(unit.path).name: unit.text for unit in metrics_units(names, "/r", fabric)}
    assert "\nListenStream=192.168.100.12:29503\n" in texts["fabric-metrics.socket"]
    written = texts["spark-metrics.service"]
    assert "/r/bin/sparkwright-host metrics /r /r/metrics/spark.prom\n" in written
    program = (FILES / "metrics.py").read_text()
    assert f"\nPORT = {METRICS_PORT}\n" in program


def said(listener: str = "", package: str = "") -> list[str]:
    """Return what the script prints about whose the exporter is."""
    return ["@@listener", *listener.splitlines(), "@@package", *package.splitlines()]


def test_the_script_reads_whose_it_is(tmp_path: Path) -> None:
    def found() -> str | None:
        return foreign_exporter(shell(foreign_script(str(tmp_path)), tmp_path).stdout.splitlines())

    program(tmp_path / "dpkg-query", "exit 1")
    assert found() is None
    program(tmp_path / "dpkg-query", "echo installed")
    assert found() == "prometheus-node-exporter was here before"
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "installed").write_text("ufw\nprometheus-node-exporter\n")
    assert found() is None
    program(tmp_path / "ss", """echo 'LISTEN 0 9 *:9100 *:* users:(("sh",pid='$PPID',fd=3))'""")
    assert str(found()).startswith("port 9100 is held by ")
    with pytest.raises(ValueError, match="found no section"):
        foreign_exporter(["@@package"])


ABSENT = "LoadState=not-found"


def exporter_run(foreign: list[str], unit: str = ABSENT, current: bool = False) -> list[str]:
    """Return the commands that change a head, whose settings are `current` or absent.

    Args:
        unit: what systemd says about the exporter's unit.
    """
    answers: dict[str, list[str]] = {"@@listener": foreign, "systemctl show": unit.splitlines()}
    if current:
        answers["stat $follow"] = said_of_file(EXPORTER_DEFAULTS, exporter_defaults(ROOT))
    host = fake_host(answers, root=ROOT)
    host.run(node_exporter, name="x", root=ROOT)
    return [each for each in host.scripts() if not any(fact in each for fact in answers)]


RUNS = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nActiveEnterTimestamp=@1000"
OURS = said(package="installed\nprometheus-node-exporter")


def test_a_head_gets_an_exporter_that_never_listens_on_the_lan() -> None:
    commands = exporter_run(said())
    (install,) = [n for n, each in enumerate(commands) if "apt-get install" in each]
    settings = [n for n, each in enumerate(commands) if "/etc/default/prometheus" in each]
    assert settings
    # The package starts its program at once: its settings are there before.
    assert max(settings) < install
    assert "--no-install-recommends" in commands[install]
    assert [each for each in commands[install + 1 :] if "mkdir" not in each] == [
        "systemctl enable --quiet prometheus-node-exporter.service",
        "systemctl daemon-reload && systemctl restart prometheus-node-exporter.service",
    ]


def test_a_second_run_changes_nothing() -> None:
    assert exporter_run(OURS, RUNS, current=True) == []


def test_a_run_that_died_in_between_is_finished() -> None:
    assert exporter_run(OURS, f"{RUNS}\nChanged=1001", current=True) == [
        "systemctl daemon-reload && systemctl restart prometheus-node-exporter.service",
    ]


@pytest.mark.parametrize("foreign", [said(package="installed"), said("node (pid 7)")])
def test_the_owners_exporter_stays_as_it_is(foreign: list[str]) -> None:
    assert exporter_run(foreign, RUNS) == []


def test_a_spark_that_changes_its_part_stops_the_other() -> None:
    for timer, commands in (
        (RUNS, ["systemctl disable --quiet --now spark-metrics.timer"]),
        (ABSENT, []),
    ):
        host = fake_host({f"unit={TIMER}": timer.splitlines(), f"unit={SOCKET}": [ABSENT]})
        host.run(stopped, name="x", units=[TIMER, SOCKET])
        assert host.scripts()[2:] == commands


FLEET = Fleet(
    Path("sparks.yaml"),
    {"a": Spark(ssh_hostname="192.0.2.1"), "b": Spark(ssh_hostname="192.0.2.2")},
    {
        "chat": Replica(recipe="x", sparks=["a"]),
        "embed": Replica(recipe="y", sparks=["a"], port=8001),
        "alone": Replica(recipe="x", sparks=["b"]),
    },
)
# Values of `__name__` and `seat`, as Prometheus joins them.
FIRST, SECOND, SPARKS = (
    "spark_engine_active;",
    "spark_engine_active;embed",
    "spark_gpu_power_watts;",
)


def kept(replica: str) -> list[str]:
    """Return which of them the job of a replica's host keeps."""
    found = targets(FLEET, dict.fromkeys(FLEET.replicas, Settings()), lambda _: None)
    jobs = yaml.safe_load(prometheus_config(found))["scrape_configs"]
    (job,) = (each for each in jobs if each["job_name"] == f"{replica}-host")
    drops = [each for each in job["metric_relabel_configs"] if each.get("action") == "drop"]
    return [
        each
        for each in (FIRST, SECOND, SPARKS)
        if not any(re.fullmatch(drop["regex"], each) for drop in drops)
    ]


def test_each_replica_has_its_own_engine_and_the_sparks_figures() -> None:
    assert kept("chat") == [FIRST, SPARKS]
    assert kept("embed") == [SECOND, SPARKS]
    assert kept("alone") == [FIRST, SECOND, SPARKS]


def test_two_doors_of_a_spark_have_two_ports() -> None:
    found = targets(FLEET, dict.fromkeys(FLEET.replicas, Settings()), lambda _: None)
    assert [each.address for each in found] == [
        "192.0.2.1:8000",
        "192.0.2.1:8001",
        "192.0.2.2:8000",
    ]
