"""What Prometheus and Grafana are given."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from sparkwright.common.errors import PlanError
from sparkwright.door.keys import make_keys
from sparkwright.insight.monitoring.targets import monitoring_files, prometheus_config
from tests.commands import sparkwright
from tests.component.monitoring.given import (
    DASHBOARD,
    RULES,
    TWO,
    doors,
    fleet,
    tools,
)
from tests.unit.certificates import certificate, private_key, written


def test_each_door_is_asked_for_three_things(tmp_path: Path) -> None:
    config = yaml.safe_load(prometheus_config(doors(tmp_path)))
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert len(jobs) == 9
    assert jobs["chat-host"]["static_configs"][0]["targets"] == ["192.168.1.20:8000"]
    # A door that is open to all is shown no key.
    assert "authorization" not in jobs["open-engine"]
    assert jobs["open-engine"]["static_configs"][0]["targets"] == ["[fd00::2]:8001"]
    assert jobs["here-door"]["static_configs"][0]["targets"] == ["127.0.0.1:8000"]


def test_an_address_of_the_door_is_its_own(tmp_path: Path) -> None:
    assert doors(tmp_path, bind="10.0.0.5")[0].address == "10.0.0.5:8000"
    with pytest.raises(PlanError) as refused:
        doors(tmp_path, bind="127.0.0.1")
    assert [problem.partition("expected")[0] for problem in refused.value.problems] == [
        f"{tmp_path}/sparks.yaml: replicas.{name}: found bind 127.0.0.1, where only {spark} itself "
        "reaches the door; "
        for name, spark in (("chat", "spark-a"), ("open", "spark-b"))
    ]
    with pytest.raises(PlanError, match="replicas: found none"):
        doors(tmp_path, "sparks: {spark-a: {}}")


def test_a_certificate_of_another_name_is_asked_for_by_its_name(tmp_path: Path) -> None:
    written(tmp_path, certificate(key := private_key(), days=90), key)
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "tls.crt").read_bytes() + (tmp_path / "tls.key").read_bytes())
    tls = {"tls_certificate": str(both), "tls_key": str(both)}
    a, *_, here = doors(tmp_path, **tls)
    assert (a.server_name, here.server_name) == ("127.0.0.1", None)
    assert (a.url, here.url) == ("https://127.0.0.1:8000", "https://127.0.0.1:8000")
    plain = [each.url for each in doors(tmp_path)][:2]
    assert plain == ["http://192.168.1.20:8000", "http://[fd00::2]:8001"]
    assert a.certificates == (tmp_path / "tls.crt").read_text()
    both.write_text("nonsense")
    with pytest.raises(PlanError, match=r"tls_certificate: .*both\.pem: found no certificate"):
        doors(tmp_path, **tls)
    files = monitoring_files([a], "sk-1")
    assert files["chat.crt"] == (a.certificates, 0o644)
    assert files["api_key"] == ("sk-1\n", 0o600)
    job = yaml.safe_load(files["prometheus.yml"][0])["scrape_configs"][0]
    assert job["scheme"] == "https"
    assert job["tls_config"] == {"ca_file": "chat.crt", "server_name": "127.0.0.1"}
    # One without alternative names is asked for by the door's address.
    written(tmp_path, certificate(key, days=90, named=False), key)
    tls = {"tls_certificate": str(tmp_path / "tls.crt"), "tls_key": str(tmp_path / "tls.key")}
    a, *_ = doors(tmp_path, **tls)
    assert (a.url, a.server_name) == ("https://192.168.1.20:8000", None)


def test_the_sites_own_certificate_has_the_doors_address(tmp_path: Path) -> None:
    a, b, here = doors(tmp_path, tls="own")
    assert [each.url for each in (a, b, here)] == [
        "https://192.168.1.20:8000",
        "https://[fd00::2]:8001",
        "https://127.0.0.1:8000",
    ]
    authority = (tmp_path / "sparks.tls" / "ca.crt").read_text()
    assert all(authority in (each.certificates or "") for each in (a, b, here))
    assert "PRIVATE" not in f"{a.certificates}"


@tools
def test_the_command_writes_what_promtool_takes(tmp_path: Path) -> None:
    make_keys(fleet(tmp_path, TWO))
    out = tmp_path / "out"
    assert sparkwright("monitoring", "--out", str(out), inventory=tmp_path / "sparks.yaml") == 0
    subprocess.run(["promtool", "check", "config", out / "prometheus.yml"], check=True)
    assert (out / "api_key").stat().st_mode & 0o777 == 0o600
    assert (out / "api_key").read_text().strip() in (tmp_path / "sparks.keys").read_text()
    assert json.loads((out / "dashboard.json").read_text()) == DASHBOARD
    # Git sees nothing of it, and a second run is no different.
    assert (out / ".gitignore").read_text() == "*\n"
    before = {each.name: each.read_text() for each in out.iterdir()}
    assert sparkwright("monitoring", "--out", str(out), inventory=tmp_path / "sparks.yaml") == 0
    assert before == {each.name: each.read_text() for each in out.iterdir()}


# A quarter of an hour of health, and then everything at once.
SERIES = """
up{job="door", replica="chat", spark="a"}: 1x60 0x400
up{job="engine", replica="chat", spark="a"}: 1x60 0x400
up{job="host", replica="chat", spark="a"}: 1x60 0x400
up{job="engine", replica="rests", spark="a"}: 0x460
spark_turn_starts_total{replica="rests", spark="a"}: 3x460
spark_engine_restarts_total{spark="a"}: 1x60 3x400
spark_engine_failed{spark="a"}: 0x60 1x400
vllm:num_requests_waiting{replica="chat"}: 0 9x20 0x38 4x400
haproxy_frontend_denied_connections_total{replica="chat", spark="a", proxy="door"}: 5x60 5+100x400
spark_gpu_clock_hertz{spark="a"}: 2400e6x60 611e6x400
spark_gpu_power_watts{spark="a"}: 60x60 30x400
spark_gpu_busy_ratio{spark="a"}: 0.9x460
spark_gpu_clock_hertz{spark="b"}: 2418e6x460
spark_gpu_power_watts{spark="b"}: 60x60 17x400
spark_gpu_busy_ratio{spark="b"}: 0.96x460
spark_memory_available_bytes{spark="a"}: 50x60 3x400
spark_memory_total_bytes{spark="a"}: 100x460
node_filesystem_avail_bytes{spark="a", fstype="ext4", mountpoint="/"}: 50x60 3x400
node_filesystem_size_bytes{spark="a", fstype="ext4", mountpoint="/"}: 100x460
node_filesystem_avail_bytes{spark="a", fstype="tmpfs", mountpoint="/run"}: 0x460
node_filesystem_size_bytes{spark="a", fstype="tmpfs", mountpoint="/run"}: 100x460
spark_peer_answers{spark="b"}: 1x60 0x400
node_textfile_mtime_seconds{spark="a", file="/opt/qwen36/metrics/spark.prom"}: 0+15x60 900x400
"""


@tools
def test_each_alert_fires_in_its_time_and_not_before(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(RULES)
    names = [rule["alert"] for rule in yaml.safe_load(RULES)["groups"][0]["rules"]]
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    all_of_them = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]
    # What takes long is a start: of that nothing is said for three quarters of an hour.
    soon = [each for each in all_of_them if "EngineDown" not in each["labels"]]
    series = (line.split(": ") for line in SERIES.strip().splitlines())
    test = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": [
            {"expr": firing, "eval_time": "14m", "exp_samples": []},
            {"expr": firing, "eval_time": "40m", "exp_samples": soon},
            {"expr": firing, "eval_time": "62m", "exp_samples": all_of_them},
        ],
    }
    rules = {"rule_files": ["alerts.yml"], "evaluation_interval": "15s", "tests": [test]}
    (tmp_path / "test.yml").write_text(json.dumps(rules))
    subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=tmp_path, check=True)
