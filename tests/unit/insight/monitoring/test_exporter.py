"""The node exporter with its units, and what Prometheus keeps where two replicas share a Spark."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from host.state import exporter
from sparkwright.common.placed import EXPORTER_DEFAULTS
from sparkwright.common.ports import METRICS_PORT
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.declared.fleet.fleet import Fleet, Replica, Spark
from sparkwright.declared.fleet.settings import Settings
from sparkwright.insight.monitoring.deploy import metrics_units, node_exporter, stopped
from sparkwright.insight.monitoring.node_exporter import (
    EXPORTER,
    SOCKET,
    TIMER,
    Exporter,
    exporter_defaults,
)
from sparkwright.insight.monitoring.targets import prometheus_config, targets
from tests.unit.driven import fake_host, file_of, placed

FILES = Path(__file__).parents[4] / "files" / "host" / "insight" / "monitoring"
ROOT = "/opt/qwen36"


def test_units_know_root_and_fabric() -> None:
    fabric = FabricPlan("b", "a", ("192.168.100.0/24", "192.168.101.0/24"), 9000, 80)
    names = ("spark-metrics.timer", "spark-metrics.service", "fabric-metrics.socket")
    texts = {Path(unit.path).name: unit.text for unit in metrics_units(names, "/r", fabric)}
    assert "\nListenStream=192.168.100.12:29503\n" in texts["fabric-metrics.socket"]
    written = texts["spark-metrics.service"]
    assert "/r/bin/sparkwright-host metrics /r /r/metrics/spark.prom\n" in written
    program = (FILES / "metrics.py").read_text()
    assert f"\nPORT = {METRICS_PORT}\n" in program


def test_whose_exporter_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(exporter, "listening", list)
    monkeypatch.setattr(exporter, "lines", lambda *_: [])

    def foreign() -> str | None:
        known = json.dumps({"known": exporter.read(str(tmp_path))})
        return Exporter.ask().value(known).foreign

    assert foreign() is None
    monkeypatch.setattr(exporter, "lines", lambda *_: ["installed"])
    assert foreign() == "prometheus-node-exporter was here before"
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "installed").write_text("ufw\nprometheus-node-exporter\n")
    assert foreign() is None
    own = {"pid": 6, "command": "x", "cgroup": "/system.slice/prometheus-node-exporter.service"}
    socket = {"kind": "tcp", "address": "127.0.0.1", "port": 9100, "processes": [own]}
    monkeypatch.setattr(exporter, "listening", lambda: [socket])
    assert foreign() is None
    own |= {"pid": 7, "command": "node", "cgroup": "/system.slice/theirs.service"}
    assert foreign() == "port 9100 is held by node (pid 7)"


NOBODYS: dict[str, Any] = {"holder": None, "installed": False, "ours": False}
OURS = NOBODYS | {"installed": True, "ours": True}
RUNS = "loaded active enabled 1000"


def exporter_run(found: dict[str, Any], unit: str = "", **settings: Any) -> list[str]:
    """Return the commands that change a head.

    Args:
        unit: what systemd says about the exporter's unit.
        settings: the state of its settings; none where there are none.
    """
    text = exporter_defaults(ROOT)
    files = {EXPORTER_DEFAULTS: file_of(text, **settings)} if settings else {}
    units = {EXPORTER: unit} if unit else {}
    host = fake_host(state={"exporter": found, "placed": placed(files, units)}, root=ROOT)
    host.run(node_exporter, name="x", root=ROOT)
    return host.scripts()


def test_a_head_gets_an_exporter_that_never_listens_on_the_lan() -> None:
    commands = exporter_run(NOBODYS)
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
    assert exporter_run(OURS, RUNS, changed=900) == []


def test_a_run_that_died_in_between_is_finished() -> None:
    assert exporter_run(OURS, RUNS, changed=1001) == [
        "systemctl daemon-reload && systemctl restart prometheus-node-exporter.service",
    ]


@pytest.mark.parametrize("found", [NOBODYS | {"installed": True}, NOBODYS | {"holder": "x"}])
def test_the_owners_exporter_stays_as_it_is(found: dict[str, Any]) -> None:
    assert exporter_run(found, RUNS) == []


@pytest.mark.parametrize(
    ("timer", "commands"),
    [(RUNS, ["systemctl disable --quiet --now spark-metrics.timer"]), ("", [])],
)
def test_a_spark_that_changes_its_part_stops_the_other(timer: str, commands: list[str]) -> None:
    host = fake_host(state={"placed": placed(units={TIMER: timer})}, root=ROOT)
    host.run(stopped, name="x", units=[TIMER, SOCKET])
    assert host.scripts() == commands


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
    found = targets(FLEET, dict.fromkeys(FLEET.replicas, Settings()))
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
    found = targets(FLEET, dict.fromkeys(FLEET.replicas, Settings()))
    assert [each.address for each in found] == [
        "192.0.2.1:8000",
        "192.0.2.1:8001",
        "192.0.2.2:8000",
    ]
