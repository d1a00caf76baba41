"""The node exporter with its units, and what Prometheus keeps where two replicas share a Spark."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from host.state import sockets
from sparkwright.common.placed import EXPORTER, EXPORTER_DEFAULTS
from sparkwright.common.ports import METRICS_PORT
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.declared.fleet.fleet import Fleet, Replica, Spark
from sparkwright.declared.fleet.settings import Settings
from sparkwright.insight.monitoring.deploy import (
    SOCKET,
    TIMER,
    Exporter,
    exporter_defaults,
    metrics_units,
    node_exporter,
    stopped,
)
from sparkwright.insight.monitoring.targets import prometheus_config, targets
from tests.unit.driven import fake_host, file_of, placed

FILES = Path(__file__).parents[4] / "files" / "host" / "insight" / "monitoring"
ROOT = "/opt/qwen36"


def test_units_know_root_and_fabric() -> None:
    fabric = FabricPlan("b", ("b", "a"), ("192.168.100.0/24", "192.168.101.0/24"), 9000, 80)
    names = ("spark-metrics.timer", "spark-metrics.service", "fabric-metrics.socket")
    texts = {Path(unit.path).name: unit.text for unit in metrics_units(names, "/r", fabric)}
    assert "\nListenStream=192.168.100.12:29503\n" in texts["fabric-metrics.socket"]
    written = texts["spark-metrics.service"]
    assert "/r/bin/sparkwright-host metrics /r /r/metrics/spark.prom\n" in written
    program = (FILES / "metrics.py").read_text()
    assert f"\nPORT = {METRICS_PORT}\n" in program


@pytest.mark.parametrize(
    ("spark", "others", "addresses"),
    [("b", "ab", "12 11 11"), ("b", "abcd", "12 13 11"), ("d", "abcd", "14 11 13")],
)
def test_each_recorder_of_a_group_knows_the_next_and_the_last(
    spark: str, others: str, addresses: str
) -> None:
    subnets = ("192.168.100.0/24", "192.168.101.0/24")
    fabric = FabricPlan(spark, tuple(others[::-1]), subnets, 9000, 80)
    (unit,) = metrics_units(["flight-recorder.service"], "/r", fabric)
    words = " ".join(f"192.168.100.{each}" for each in addresses.split())
    assert f" record /r {words} < <(" in unit.text


def test_whose_exporter_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sockets, "listening", list)
    monkeypatch.setattr(sockets, "lines", lambda *_: [])

    def foreign() -> str | None:
        known = json.dumps({"known": sockets.exporter(str(tmp_path))})
        return Exporter.ask().value(known).foreign

    assert foreign() is None
    monkeypatch.setattr(sockets, "lines", lambda *_: ["installed"])
    assert foreign() == "prometheus-node-exporter was here before"
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "installed").write_text("ufw\nprometheus-node-exporter\n")
    assert foreign() is None
    own = {"pid": 6, "command": "x", "cgroup": "/system.slice/prometheus-node-exporter.service"}
    socket = {"kind": "tcp", "address": "127.0.0.1", "port": 9100, "processes": [own]}
    monkeypatch.setattr(sockets, "listening", lambda: [socket])
    assert foreign() is None
    own |= {"pid": 7, "command": "node", "cgroup": "/system.slice/theirs.service"}
    assert foreign() == "port 9100 is held by node (pid 7)"


NOBODYS: dict[str, Any] = {"holder": None, "installed": False, "ours": False}
OURS = NOBODYS | {"installed": True, "ours": True}
RUNS = "loaded active enabled 1000"


def exporter_run(found: dict[str, Any], unit: str = "", **settings: Any) -> list[str]:
    """Return the commands that change a head, by its unit in systemd's words, and its settings."""
    text = exporter_defaults(ROOT)
    files = {EXPORTER_DEFAULTS: file_of(text, **settings)} if settings else {}
    units = {f"{EXPORTER}.service": unit} if unit else {}
    host = fake_host(state={"sockets.exporter": found, "placed": placed(files, units)}, root=ROOT)
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


def test_a_second_run_changes_nothing_or_finishes_the_first() -> None:
    assert exporter_run(OURS, RUNS, changed=900) == []
    assert exporter_run(OURS, RUNS, changed=1001) == [
        "systemctl daemon-reload && systemctl restart prometheus-node-exporter.service"
    ]
    # The owner's own stays as it is.
    for theirs in ({"installed": True}, {"holder": "x"}):
        assert exporter_run(NOBODYS | theirs, RUNS) == []


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
        "rank.x": Replica(recipe="z", sparks=["a"], port=8002),
        "alone": Replica(recipe="x", sparks=["b"]),
    },
)
# Values of `__name__` and `seat`, as Prometheus joins them.
FIRST, SECOND = "spark_engine_active;", "spark_engine_active;embed"
THIRD, TURN = "spark_door_requests_waiting;rank.x", "spark_turn_starts_total;embed"
SPARKS = "spark_gpu_power_watts;"
DOORS = targets(FLEET, dict.fromkeys(FLEET.replicas, Settings()))


def kept(replica: str) -> list[str]:
    """Return which of them the job of a replica's host keeps."""
    jobs = yaml.safe_load(prometheus_config(DOORS))["scrape_configs"]
    (job,) = (each for each in jobs if each["job_name"] == f"{replica}-host")
    drops = [each for each in job["metric_relabel_configs"] if each.get("action") == "drop"]
    return [
        each
        for each in (FIRST, SECOND, THIRD, TURN, SPARKS)
        if not any(re.fullmatch(drop["regex"], each) for drop in drops)
    ]


def test_each_replica_has_its_own_engine_and_the_sparks_figures() -> None:
    assert kept("chat") == [FIRST, SPARKS]
    assert kept("embed") == [SECOND, TURN, SPARKS]
    assert kept("rank.x") == [THIRD, SPARKS]
    assert kept("alone") == [FIRST, SECOND, THIRD, TURN, SPARKS]
    # The doors of a Spark have ports of their own.
    addresses = ["192.0.2.1:8000", "192.0.2.1:8001", "192.0.2.1:8002", "192.0.2.2:8000"]
    assert [each.address for each in DOORS] == addresses
