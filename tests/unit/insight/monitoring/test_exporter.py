"""The node exporter with its units, and what Prometheus keeps where two replicas share a Spark."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkwright.common.files import ManagedFile
from sparkwright.common.placed import EXPORTER_DEFAULTS
from sparkwright.common.ports import METRICS_PORT
from sparkwright.declared.fleet.fabric_plan import fabric_plan
from sparkwright.declared.fleet.fleet import Fleet, Replica, Spark
from sparkwright.declared.fleet.settings import Settings
from sparkwright.insight.monitoring.deploy import host_metrics, metrics_units
from sparkwright.insight.monitoring.node_exporter import (
    SOCKET,
    TIMER,
    exporter_defaults,
    exporter_script,
    parse_exporter,
)
from sparkwright.insight.monitoring.targets import prometheus_config, targets
from tests.makers.shell import shell
from tests.unit.driven import fake_host, said_of_file
from tests.unit.units import said_of_units

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


def exporter_output(
    listener: str = "", package: str = "", exporter: str = "", timer: str = "", socket: str = ""
) -> list[str]:
    units = {
        "prometheus-node-exporter.service": exporter,
        "spark-metrics.timer": timer,
        "fabric-metrics.socket": socket,
    }
    return [
        *("@@listener", *listener.splitlines()),
        *("@@package", *package.splitlines()),
        *said_of_units(units),
    ]


def test_the_script_reads_a_machine_without_anything(tmp_path: Path) -> None:
    script = exporter_script(str(tmp_path), {TIMER: [str(tmp_path / "none")], SOCKET: []})
    done = shell(script)
    found = parse_exporter(done.stdout.splitlines())
    assert set(found.units) == {TIMER, SOCKET}
    assert not any(unit.active or unit.outdated for unit in found.units.values())
    with pytest.raises(ValueError, match="found no section"):
        parse_exporter(["@@package"])


PROGRAMS = [ManagedFile(f"{ROOT}/bin/sparkwright-host", "program")]


def metrics_run(unit: str | None, output: list[str], current: bool = False) -> list[str]:
    """Return the commands that change a Spark, whose files are `current` or all absent."""
    names = (unit, "spark-metrics.service") if unit else ()
    units = [ManagedFile(f"/etc/systemd/system/{name}", "x") for name in names]
    answers: dict[Any, Any] = {"@@listener": output}
    if current:
        answers["stat $follow"] = file_lines(units)
    host = fake_host(answers, root=ROOT)
    host.run(host_metrics, name="x", root=ROOT, unit=unit, programs=PROGRAMS, units=units)
    facts = ("@@listener", "stat $follow")
    return [each for each in host.scripts() if not any(fact in each for fact in facts)]


def file_lines(units: Sequence[ManagedFile]) -> list[str]:
    files = {unit.path: unit.text for unit in units}
    files |= {file.path: file.text for file in PROGRAMS}
    files |= {EXPORTER_DEFAULTS: exporter_defaults(ROOT)}
    return [
        *(line for path, text in files.items() for line in said_of_file(path, text)),
        *(f"stat\tdirectory\troot\troot\t755\t{ROOT}/{name}" for name in ("bin", "metrics")),
    ]


RUNS = "active enabled"


def test_a_head_gets_an_exporter_that_never_listens_on_the_lan() -> None:
    commands = metrics_run(TIMER, exporter_output())
    (install,) = [n for n, each in enumerate(commands) if "apt-get install" in each]
    settings = [n for n, each in enumerate(commands) if "/etc/default/prometheus" in each]
    assert settings
    # The package starts its program at once: its settings are there before.
    assert max(settings) < install
    assert "--no-install-recommends" in commands[install]
    assert [each for each in commands[install + 1 :] if "mkdir" not in each] == [
        "systemctl enable --quiet prometheus-node-exporter.service",
        "systemctl daemon-reload && systemctl restart prometheus-node-exporter.service",
        "systemctl enable --quiet spark-metrics.timer",
        "systemctl daemon-reload && systemctl restart spark-metrics.timer",
    ]


def test_a_second_run_changes_nothing() -> None:
    ours = exporter_output(package="installed\nprometheus-node-exporter", exporter=RUNS, timer=RUNS)
    assert metrics_run(TIMER, ours, current=True) == []
    assert metrics_run(SOCKET, exporter_output(socket=RUNS), current=True) == []
    assert metrics_run(None, exporter_output(exporter=RUNS)) == []


def test_a_run_that_died_in_between_is_finished() -> None:
    half = exporter_output(
        package="installed\nprometheus-node-exporter",
        exporter=f"{RUNS} outdated",
        timer="enabled",
    )
    assert metrics_run(TIMER, half, current=True) == [
        "systemctl daemon-reload && systemctl restart prometheus-node-exporter.service",
        "systemctl start spark-metrics.timer",
    ]


@pytest.mark.parametrize(
    "output",
    [exporter_output(package="installed", exporter=RUNS), exporter_output("node (pid 7)")],
)
def test_the_owners_exporter_stays_as_it_is(output: list[str]) -> None:
    commands = metrics_run(TIMER, output)
    assert not [each for each in commands if "node-exporter" in each or "apt-get" in each]
    assert "systemctl enable --quiet spark-metrics.timer" in commands


def test_a_spark_that_changes_its_part_stops_the_other() -> None:
    off = "systemctl disable --quiet --now spark-metrics.timer"
    assert metrics_run(None, exporter_output(timer=RUNS)) == [off]
    assert metrics_run(SOCKET, exporter_output(timer=RUNS, socket=RUNS), current=True) == [off]


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
