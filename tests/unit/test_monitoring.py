"""Monitoring: what Spark, Prometheus and Grafana are given, and all of it together on loopback."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

from deploys.certificate import read_certificate
from deploys.monitoring import main
from deploys.operations.node_exporter import host_metrics
from deploys.plan.dashboard import dashboard
from deploys.plan.errors import PlanError
from deploys.plan.fabric import METRICS_PORT, fabric_plan
from deploys.plan.fleet import Fleet
from deploys.plan.fleet_file import load_fleet
from deploys.plan.monitoring import Target, monitoring_files, prometheus_config, targets
from deploys.plan.node_exporter import (
    DEFAULTS,
    SOCKET,
    TIMER,
    exporter_defaults,
    exporter_script,
    parse_exporter,
    unit_texts,
)
from deploys.plan.panels import SECTIONS, queries
from deploys.plan.recipes import recipe_names
from tests.unit.certificates import certificate, private_key, written
from tests.unit.door.running import KEY, Running, haproxy, plan
from tests.unit.driven import fake_host
from tests.unit.servers import free_port, serving, until

PROJECT = Path(__file__).parents[2]
FILES = PROJECT / "files" / "monitoring"
sys.path.insert(0, str(FILES))

import spark_metrics  # noqa: E402

ROOT = "/opt/qwen36"
RULES = (FILES / "alerts.yml").read_text()
tools = pytest.mark.skipif(not shutil.which("promtool"), reason="needs Debian's package prometheus")
exporter_program = pytest.mark.skipif(
    not shutil.which("prometheus-node-exporter"),
    reason="needs Debian's package prometheus-node-exporter",
)

# --- What a Spark tells of GPU and engine.

STAND_INS = {
    "nvidia-smi": "echo '2405, 61.42, 67, 96, [N/A], [N/A]'",
    "systemctl": "printf 'ActiveState=active\\nNRestarts=3\\n'",
}
OWN = """\
# HELP spark_gpu_clock_hertz Clock of the GPU's multiprocessors.
# TYPE spark_gpu_clock_hertz gauge
spark_gpu_clock_hertz{spark="spark-a"} 2405000000
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root folder of the head of a pair, whose worker is at 127.0.0.1."""
    (tmp_path / "bin").mkdir()
    for name, text in STAND_INS.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    release = tmp_path / "releases" / "tiny-1"
    release.mkdir(parents=True)
    fabric = [["192.168.100.11", "192.168.101.11"], ["127.0.0.1", "127.0.0.2"]]
    unit = {"sparks": ["spark-a", "spark-b"], "rank": 0, "fabric": fabric}
    (release / "unit.json").write_text(json.dumps(unit))
    (tmp_path / "current").symlink_to("releases/tiny-1")
    (tmp_path / "metrics").mkdir()
    return tmp_path


def values(text: str) -> dict[str, float]:
    """Return what a text says, and check that it is in Prometheus' format."""
    if shutil.which("promtool"):
        checked = subprocess.run(
            ["promtool", "check", "metrics"],
            input=text,
            text=True,
            capture_output=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stderr
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def test_a_spark_tells_of_its_gpu_and_its_engine(root: Path) -> None:
    program = [sys.executable, str(FILES / "spark_metrics.py"), str(root)]
    text = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert text.startswith(OWN)
    found = values(text)
    assert found['spark_gpu_power_watts{spark="spark-a"}'] == 61.42
    assert found['spark_gpu_busy_ratio{spark="spark-a"}'] == 0.96
    assert found['spark_engine_active{spark="spark-a"}'] == 1
    assert found['spark_engine_failed{spark="spark-a"}'] == 0
    assert found['spark_engine_restarts_total{spark="spark-a"}'] == 3
    available = found['spark_memory_available_bytes{spark="spark-a"}']
    assert 0 < available < found['spark_memory_total_bytes{spark="spark-a"}']
    # A GB10 has no memory of its own, and the worker is asked by the other way of calling it.
    assert not [name for name in found if "gpu_memory" in name or "peer" in name]


def test_one_without_anything_tells_of_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = values(spark_metrics.text_of(spark_metrics.own(tmp_path)))
    assert {name.partition("{")[0] for name in found} == {
        "spark_memory_available_bytes",
        "spark_memory_total_bytes",
    }


@contextmanager
def worker(says: bytes) -> Iterator[None]:
    """Be the worker: what its socket unit does for each who connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(says)

        thread = threading.Thread(target=answer)
        thread.start()
        spark_metrics.PORT = server.getsockname()[1]
        try:
            yield
        finally:
            thread.join(timeout=10)


def test_the_head_writes_what_its_worker_tells_too(root: Path) -> None:
    says = OWN.replace("spark-a", "spark-b").encode() + (
        b'spark_engine_restarts_total{spark="spark-b"} 1\n'
        # Whatever else is there does not get in.
        b'node_load1{spark="spark-b"} 1\nspark_gpu_power_watts{spark="spark-a"} 9\n'
        b'spark_gpu_power_watts{spark="spark-b"} 1} 2\nnonsense \xc3\xa4\n'
    )
    file = root / "metrics" / "spark.prom"
    with worker(says):
        assert spark_metrics.main([str(root), str(file)]) == 0
    found = values(file.read_text())
    assert found['spark_gpu_clock_hertz{spark="spark-b"}'] == 2405e6
    assert found['spark_engine_restarts_total{spark="spark-b"}'] == 1
    assert found['spark_gpu_power_watts{spark="spark-a"}'] == 61.42
    assert found['spark_peer_answers{spark="spark-b"}'] == 1
    assert len([name for name in found if "spark-b" in name]) == 3
    assert [each.name for each in (root / "metrics").iterdir()] == ["spark.prom"]


@pytest.mark.parametrize("says", [None, b"", b"\xff\xfe", b"x" * 100_000])
def test_a_worker_that_tells_nothing_is_told_of(root: Path, says: bytes | None) -> None:
    file = root / "metrics" / "spark.prom"
    if says is None:
        spark_metrics.PORT = free_port()
        spark_metrics.main([str(root), str(file)])
    else:
        with worker(says):
            spark_metrics.main([str(root), str(file)])
    found = values(file.read_text())
    assert found['spark_peer_answers{spark="spark-b"}'] == 0
    assert found['spark_gpu_power_watts{spark="spark-a"}'] == 61.42


# --- The units and the node exporter.


def test_units_know_root_and_fabric() -> None:
    fabric = fabric_plan(
        "b", ["a", "b"], ("192.168.100.0/24", "192.168.101.0/24"), mtu=9000, bandwidth_minimum=80
    )
    names = ("spark-metrics.timer", "spark-metrics.service", "fabric-metrics.socket")
    templates = {name: (FILES / name).read_text() for name in names}
    texts = unit_texts(templates, "/r", fabric)
    assert "\nListenStream=192.168.100.12:29503\n" in texts["fabric-metrics.socket"]
    assert "/r/bin/spark_metrics.py /r /r/metrics/spark.prom\n" in texts["spark-metrics.service"]
    assert not [text for text in texts.values() if "ROOT" in text]
    program = (FILES / "spark_metrics.py").read_text()
    assert f"\nPORT = {METRICS_PORT}\n" in program


def exporter_output(
    listener: str = "", package: str = "", exporter: str = "", timer: str = "", socket: str = ""
) -> list[str]:
    parts = {
        "listener": listener,
        "package": package,
        "prometheus-node-exporter.service": exporter,
        "spark-metrics.timer": timer,
        "fabric-metrics.socket": socket,
    }
    return [line for name, text in parts.items() for line in [f"@@{name}", *text.splitlines()]]


def test_the_script_reads_a_machine_without_anything(tmp_path: Path) -> None:
    script = exporter_script(str(tmp_path), {TIMER: [str(tmp_path / "none")], SOCKET: []})
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    found = parse_exporter(done.stdout.splitlines())
    assert set(found.units) == {TIMER, SOCKET}
    assert not any(unit.active or unit.outdated for unit in found.units.values())
    with pytest.raises(ValueError, match="found no section"):
        parse_exporter(["@@package"])


def metrics_run(unit: str | None, output: list[str], current: bool = False) -> list[str]:
    """Return the commands that change a Spark: of a fake one, where all files are absent.

    Args:
        unit: what it is to be.
        output: what the exporter's script prints.
        current: its files are all there.
    """
    texts = {name: "x" for name in (unit, "some.service") if name}
    answers: dict[Any, Any] = {"@@listener": output}
    if current:
        answers["stat $follow"] = file_lines(texts)
    host = fake_host(answers, root=ROOT)
    host.run(host_metrics, name="x", root=ROOT, unit=unit, program="p", units=texts)
    return [each for each in host.scripts() if "@@" not in each and "stat $follow" not in each]


def file_lines(texts: dict[str, str]) -> list[str]:
    files = {f"/etc/systemd/system/{name}": text for name, text in texts.items()}
    files |= {f"{ROOT}/bin/spark_metrics.py": "p", DEFAULTS: exporter_defaults(ROOT)}
    lines = [
        f"file\troot\troot\t644\t{sha256(text.encode()).hexdigest()}\t{path}"
        for path, text in files.items()
    ]
    return [
        *lines,
        *(f"directory\troot\troot\t755\t\t{ROOT}/{name}" for name in ("bin", "metrics")),
    ]


RUNS = "active\nenabled"


def test_a_head_gets_an_exporter_that_never_listens_on_the_lan() -> None:
    commands = metrics_run(TIMER, exporter_output())
    (install,) = [n for n, each in enumerate(commands) if "apt-get install" in each]
    settings = [n for n, each in enumerate(commands) if "/etc/default/prometheus" in each]
    assert settings
    # The package starts its program at once: its settings are there before.
    assert max(settings) < install
    assert 'APT::Install-Recommends "false"' in commands[install]
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
        exporter=f"{RUNS}\noutdated",
        timer="inactive\nenabled",
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


# --- What Prometheus is given.


def fleet(folder: Path, text: str) -> Fleet:
    file = folder / "sparks.yaml"
    file.write_text(text)
    return load_fleet(file, recipe_names())


TWO = """
sparks:
  spark-a: {ssh_hostname: 192.168.1.20}
  spark-b: {ssh_hostname: "fd00::2"}
  spark-c: {local: true}
replicas:
  chat: {recipe: qwen3.6-35b-nvfp4-dflash, sparks: [spark-a]}
  open: {recipe: qwen3.6-35b-nvfp4-dflash, sparks: [spark-b], port: 8001, api_key: none}
  here: {recipe: qwen3.6-35b-nvfp4-dflash, sparks: [spark-c]}
"""


def doors(folder: Path, text: str = TWO, **settings: Any) -> list[Target]:
    values = {"bind": "0.0.0.0", "tls_certificate": None, **settings}
    return targets(
        fleet(folder, text), lambda _, name: values[name], lambda path: Path(path).read_bytes()
    )


def test_each_door_is_asked_for_three_things(tmp_path: Path) -> None:
    config = yaml.safe_load(prometheus_config(doors(tmp_path)))
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert list(jobs) == [
        f"{replica}-{kind}"
        for replica in ("chat", "open", "here")
        for kind in ("engine", "door", "host")
    ]
    chat = jobs["chat-host"]
    assert chat["metrics_path"] == "/metrics/host"
    assert chat["honor_labels"]
    assert chat["authorization"] == {"credentials_file": "api_key"}
    (static,) = chat["static_configs"]
    assert static["targets"] == ["192.168.1.20:8000"]
    assert (static["labels"]["job"], static["labels"]["spark"]) == ("host", "spark-a")
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
    a, *_, here = doors(tmp_path, tls_certificate=str(both))
    assert (a.server_name, here.server_name) == ("127.0.0.1", None)
    assert a.certificates == (tmp_path / "tls.crt").read_text()
    both.write_text("nonsense")
    with pytest.raises(PlanError, match=r"tls_certificate: found .*both\.pem, which is no cert"):
        doors(tmp_path, tls_certificate=str(both))
    files = monitoring_files([a], "sk-1", RULES, "{}")
    assert files["chat.crt"] == (a.certificates, 0o644)
    assert files["api_key"] == ("sk-1\n", 0o600)
    job = yaml.safe_load(files["prometheus.yml"][0])["scrape_configs"][0]
    assert job["scheme"] == "https"
    assert job["tls_config"] == {"ca_file": "chat.crt", "server_name": "127.0.0.1"}


@tools
def test_the_command_writes_what_promtool_takes(tmp_path: Path) -> None:
    fleet(tmp_path, TWO)
    out = tmp_path / "out"
    assert main([str(tmp_path / "sparks.yaml"), "--out", str(out)]) == 0
    subprocess.run(["promtool", "check", "config", out / "prometheus.yml"], check=True)
    assert (out / "api_key").stat().st_mode & 0o777 == 0o600
    assert (out / "api_key").read_text().strip() in (tmp_path / "sparks.keys").read_text()
    assert json.loads((out / "dashboard.json").read_text())["panels"]
    # Git sees nothing of it, and a second run is no different.
    assert (out / ".gitignore").read_text() == "*\n"
    before = {each.name: each.read_text() for each in out.iterdir()}
    assert main([str(tmp_path / "sparks.yaml"), "--out", str(out)]) == 0
    assert before == {each.name: each.read_text() for each in out.iterdir()}


def test_an_inventory_that_cannot_be_is_refused(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "sparks.yaml").write_text("sparks: {}")
    assert main([str(tmp_path / "sparks.yaml"), "--out", str(tmp_path / "out")]) == 1
    assert "sparks.yaml: sparks: found" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# A quarter of an hour of health, and then everything at once.
SERIES = """
up{job="door", replica="chat", spark="a"}: 1x60 0x400
up{job="engine", replica="chat", spark="a"}: 1x60 0x400
spark_engine_restarts_total{spark="a"}: 1x60 3x400
spark_engine_failed{spark="a"}: 0x60 1x400
vllm:num_requests_waiting{replica="chat"}: 0 9x20 0x38 4x400
spark_gpu_clock_hertz{spark="a"}: 2400e6x60 611e6x400
spark_gpu_power_watts{spark="a"}: 60x60 30x400
spark_gpu_busy_ratio{spark="a"}: 0.9x460
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
    (tmp_path / "test.yml").write_text(
        json.dumps({"rule_files": ["alerts.yml"], "evaluation_interval": "15s", "tests": [test]})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_what_grafana_imports() -> None:
    told = json.loads(dashboard())
    graphs = [panel for panel in told["panels"] if panel["type"] == "timeseries"]
    assert len(graphs) == sum(map(len, SECTIONS.values()))
    assert len({panel["id"] for panel in told["panels"]}) == len(told["panels"])
    # None lies upon another, and all have the source that its user chooses.
    cells = [
        (x, y)
        for panel in told["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23
    sources = {target["datasource"]["uid"] for panel in graphs for target in panel["targets"]}
    assert sources == {"${datasource}"}
    variables = {each["name"] for each in told["templating"]["list"]}
    used = {name for query in _raw_queries() for name in re.findall(r"\$(\w+)", query)}
    assert used - {"__rate_interval"} <= variables


def _raw_queries() -> list[str]:
    return [query for panels in SECTIONS.values() for panel in panels for _, query in panel.queries]


# --- All of it together: engine, door, node exporter, Prometheus.

# Names and labels of vLLM 0.33.0; the numbers are made up, and counters rise with each look.
LABELS = 'engine="0",model_name="m"'
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
COUNTERS = (
    *("prefix_cache_queries_total", "prefix_cache_hits_total", "num_preemptions_total"),
    *("prompt_tokens_total", "generation_tokens_total", "spec_decode_num_draft_tokens_total"),
    "spec_decode_num_accepted_tokens_total",
)
HISTOGRAMS = ("time_to_first_token_seconds", "request_time_per_output_token_seconds")


class FakeEngine(BaseHTTPRequestHandler):
    """An engine's /health and /metrics."""

    looks = count(1)

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.path != "/metrics":
            return
        n = next(self.looks)
        lines = [f"vllm:{name}{{{LABELS}}} 0.5" for name in GAUGES]
        lines += [f"vllm:{name}{{{LABELS}}} {n}.0" for name in COUNTERS]
        lines += [f'vllm:request_success_total{{{LABELS},finished_reason="stop"}} {n}.0']
        lines += [
            f'vllm:{name}_bucket{{{LABELS},le="{bound}"}} {n}.0'
            for name in HISTOGRAMS
            for bound in ("0.1", "+Inf")
        ]
        self.wfile.write("".join(f"{line}\n" for line in lines).encode())

    def log_message(self, *_: object) -> None:
        pass


class Prometheus:
    """A Prometheus that runs with a configuration.

    Args:
        folder: where its files are.
    """

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        command.append(f"--web.listen-address=127.0.0.1:{self._port}")
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the samples that a query gives."""
        url = f"http://127.0.0.1:{self._port}/api/v1/query?query={quote(query)}"
        try:
            with urlopen(url, timeout=10) as answer:
                told = json.load(answer)
        except OSError as error:
            raise AssertionError(f"{query}: {error}") from error
        assert told["status"] == "success", told
        result: list[dict[str, Any]] = told["data"]["result"]
        return result

    def up(self) -> dict[str, str]:
        """Return whether each job could be asked, "1" or "0"; nothing as long as it starts."""
        try:
            return {each["metric"]["job"]: each["value"][1] for each in self.ask("up")}
        except AssertionError:
            return {}

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


@pytest.fixture
def node_exporter(root: Path) -> Iterator[None]:
    """The real one, where the door asks it."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 9100)) == 0:
            pytest.skip("needs port 9100 of loopback")
    (defaults,) = re.findall(r'^ARGS="(.*)"$', exporter_defaults(str(root)), re.MULTILINE)
    command = ["prometheus-node-exporter", *defaults.split()]
    with (root / "log.exporter").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: _listens(9100))
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def engine() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeEngine)
    with serving(server):
        yield server.server_port


def watched(root: Path, door: Running, key: str, certificate: Path | None) -> Path:
    """Write what `deploys.monitoring` writes for a door, asked more often; return the folder."""
    text = f"""
sparks: {{spark-a: {{ssh_hostname: 127.0.0.1}}}}
replicas: {{chat: {{recipe: lab-tiny, sparks: [spark-a], port: {door.port}}}}}
"""
    found = doors(root, text, tls_certificate=certificate and str(certificate))
    folder = root / "prometheus"
    folder.mkdir()
    for name, (content, _) in monitoring_files(found, key, RULES, "{}").items():
        (folder / name).write_text(content.replace("15s", "500ms"))
    return folder


@haproxy
@tools
@exporter_program
@pytest.mark.usefixtures("node_exporter")
def test_prometheus_finds_all_that_the_dashboard_shows(
    root: Path, door_of_head: Running, engine: int
) -> None:
    door_of_head.door.offer("tiny-1", engine)
    (root / "bin" / "nvidia-smi").write_text("#!/bin/sh\necho '2405, 61.42, 67, 96, 900, 1000'\n")
    with worker(b'spark_memory_total_bytes{spark="spark-b"} 5\n'):
        spark_metrics.main([str(root), str(root / "metrics" / "spark.prom")])
    prometheus = Prometheus(watched(root, door_of_head, KEY, None))
    try:
        everything = {"engine": "1", "door": "1", "host": "1"}
        until(lambda: prometheus.up() == everything, seconds=30)
        # A rate takes two samples.
        until(lambda: bool(prometheus.ask("rate(vllm:generation_tokens_total[1m])")), seconds=30)
        until(lambda: bool(prometheus.ask("rate(node_vmstat_pswpin[1m])")), seconds=30)
        empty = [query for query in queries() if not prometheus.ask(query)]
        assert empty == []
        # What a head tells of its worker has the worker's name, the rest its own.
        (of_worker,) = prometheus.ask('spark_memory_total_bytes{spark="spark-b"}')
        assert of_worker["metric"]["replica"] == "chat"
        assert {each["metric"]["spark"] for each in prometheus.ask("node_load1")} == {"spark-a"}
    finally:
        prometheus.stop()


@haproxy
@tools
@pytest.mark.parametrize(("key", "up"), [(KEY, "1"), (KEY[:-1], "0")])
def test_the_key_and_the_certificate_open_the_door(
    root: Path, door_of_head: Running, engine: int, key: str, up: str
) -> None:
    written(root, certificate(secret := private_key(), days=90), secret)
    tls = read_certificate(str(root / "tls.crt"), str(root / "tls.key"))
    door_of_head.door.offer("tiny-1", engine)
    door_of_head.lay(plan(door_of_head.port, certificate=tls))
    door_of_head.reload()
    prometheus = Prometheus(watched(root, door_of_head, key, root / "tls.crt"))
    try:
        until(lambda: prometheus.up().get("engine") == up, seconds=30)
        until(lambda: prometheus.up().get("door") == up, seconds=30)
    finally:
        prometheus.stop()


@pytest.fixture
def door_of_head(root: Path) -> Iterator[Running]:
    each = Running(root)
    each.lay(each.plan)
    each.start()
    try:
        yield each
    finally:
        each.stop()
