"""All of it together: engine, door, node exporter, Prometheus."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from sparkwright.door.certificates import read_certificate
from sparkwright.insight.monitoring.deploy import exporter_defaults
from sparkwright.insight.monitoring.targets import monitoring_files
from tests.clock import patience
from tests.component.door.running import Running, haproxy, opened
from tests.component.monitoring.given import QUERIES, doors, tools, worker, write_metrics
from tests.component.servers import QuietHandler, free_port, listens, serving, until
from tests.component.socket_server import SocketServer
from tests.lab.engine_image import STAND_IN
from tests.makers.door import KEY
from tests.unit.certificates import certificate, private_key, written

exporter_program = pytest.mark.skipif(
    not shutil.which("prometheus-node-exporter"),
    reason="needs Debian's package prometheus-node-exporter",
)


# As captured from vLLM, by name, labels and buckets: from an engine that drafts nothing.
FAMILIES = json.loads((STAND_IN / "vllm.json").read_text())["metrics"]
for kind in ("draft", "accepted"):
    name = f"vllm:spec_decode_num_{kind}_tokens_total"
    FAMILIES.append({"name": name, "labels": ['model_name="tiny"'], "buckets": []})
# A counter of each job of Prometheus.
EVERY_JOB = (
    *("vllm:generation_tokens_total", "haproxy_frontend_http_responses_total"),
    "node_vmstat_pswpin",
)


class FakeEngine(QuietHandler):
    """An engine's /health and /metrics."""

    looks = count(1)

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.path != "/metrics":
            return
        n = next(self.looks)
        for family in FAMILIES:
            name, labels = family["name"], family["labels"]
            for bound in family["buckets"]:
                self.wfile.write(f'{name}_bucket{{{labels[0]},le="{bound}"}} {n}.0\n'.encode())
            for each in () if family["buckets"] else labels:
                self.wfile.write(f"{name}{{{each}}} {n}.0\n".encode())


class Prometheus:
    """A Prometheus that runs with the configuration in a folder."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        command.append(f"--web.listen-address=127.0.0.1:{self._port}")
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)

    def ask(self, query: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self._port}/api/v1/query?query={quote(query)}"
        try:
            with urlopen(url, timeout=patience()) as answer:
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
        self._process.wait(timeout=patience())


@pytest.fixture
def node_exporter(root: Path, door_of_head: Running) -> Iterator[None]:
    """The real one, where the door asks it."""
    port = door_of_head.exporter
    (defaults,) = re.findall(r'^ARGS="(.*)"$', exporter_defaults(str(root)), re.MULTILINE)
    command = ["prometheus-node-exporter", *defaults.replace("9100", str(port)).split()]
    with (root / "log.exporter").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: listens(port))
        yield
    finally:
        process.terminate()
        process.wait(timeout=patience())


@pytest.fixture
def engine(root: Path) -> Iterator[str]:
    with serving(SocketServer(root, "tiny-1", FakeEngine)):
        yield "tiny-1"


def watched(root: Path, door: Running, key: str, certificate: Path | None) -> Path:
    """Write what `sparkwright monitoring` writes for a door, asked oftener; return the folder."""
    text = f"""
sparks: {{spark-a: {{ssh_hostname: 127.0.0.1}}, spark-b: {{}}}}
replicas:
  chat:
    recipe: lab-tiny
    sparks: [spark-a, spark-b]
    port: {door.port}
    trusts: [tool-parser-plugin]
"""
    tls = {
        "tls_certificate": certificate and str(certificate),
        "tls_key": certificate and str(certificate.with_suffix(".key")),
    }
    found = doors(root, text, **tls)
    folder = root / "prometheus"
    folder.mkdir()
    for name, (content, _) in monitoring_files(found, key).items():
        (folder / name).write_text(content.replace("15s", "1s"))
    return folder


def as_grafana_sends(query: str) -> str:
    """Return a query of the dashboard with its variables filled in."""
    values = {"$__rate_interval": "1m", "$replica": ".*", "$spark": ".*"}
    return re.sub(r"\$\w+", lambda name: values[name[0]], query)


@haproxy
@tools
@exporter_program
@pytest.mark.usefixtures("node_exporter")
def test_prometheus_finds_all_that_the_dashboard_shows(
    root: Path, door_of_head: Running, engine: str
) -> None:
    door_of_head.door.offer(engine)
    card = "echo 'RTX, 580, 1000, 900, 100, 2405, 61.42, 67, 96, 0x0'"
    (root / "bin" / "nvidia-smi").write_text(f"#!/bin/sh\n{card}\n")
    (root / "bin" / "door.py").write_text(
        "import sys\nprint('0 0' if sys.argv[2] == 'held' else 'ann 1 0 0')"
    )
    with worker(b'spark_memory_total_bytes{spark="spark-b"} 5\n'):
        write_metrics(root)
    labels = 'spark="spark-c",replica="other",job="engine",instance="spark-c"'
    (root / "metrics" / "forged.prom").write_text(f"forged{{{labels}}} 1\n")
    turns = (f"spark_turn_{name}_total 1\n" for name in ("starts", "refused"))
    (root / "metrics" / "turns.prom").write_text("".join(turns))
    prometheus = Prometheus(watched(root, door_of_head, KEY, None))
    try:
        everything = {"engine": "1", "door": "1", "host": "1"}
        until(lambda: prometheus.up() == everything)
        # A rate takes two samples, of each job.
        for name in EVERY_JOB:
            until(lambda name=name: bool(prometheus.ask(f"rate({name}[1m])")))  # type: ignore[misc]
        empty = [query for query in QUERIES if not prometheus.ask(as_grafana_sends(query))]
        assert empty == []
        # What a head tells of its worker has the worker's name, the rest its own.
        (of_worker,) = prometheus.ask('spark_memory_total_bytes{spark="spark-b"}')
        assert of_worker["metric"]["replica"] == "chat"
        assert {each["metric"]["spark"] for each in prometheus.ask("node_load1")} == {"spark-a"}
        # It speaks for nobody else.
        (forged,) = prometheus.ask("forged")
        own = {"spark": "spark-a", "replica": "chat", "job": "host", "instance": "spark-a"}
        assert forged["metric"] == {"__name__": "forged"} | own
    finally:
        prometheus.stop()


@haproxy
@exporter_program
@pytest.mark.usefixtures("node_exporter")
def test_no_clock_of_the_processor_is_read_and_scrapes_that_hang_do_not_pile_up(
    root: Path, door_of_head: Running
) -> None:
    told = door_of_head.ask("GET", "/metrics/host", key=KEY)[1]["text"]
    assert 'node_scrape_collector_success{collector="cpu"} 1' in told
    assert 'collector="cpufreq"' not in told
    settings = root / "door/door.cfg"
    bound = f"timeout server {round(1000 * patience(2))}ms"
    settings.write_text(settings.read_text().replace("timeout server 8s", bound))
    door_of_head.reload()
    # Whoever opens it waits for one who writes: the real exporter hangs as on a GB10.
    os.mkfifo(root / "metrics/hangs.prom")

    def scrape(_: int) -> int:
        return door_of_head.ask("GET", "/metrics/host", key=KEY)[0]

    with ThreadPoolExecutor() as pool:
        assert [*pool.map(scrape, range(4))] == [504] * 4
    assert [scrape(number) for number in range(2)] == [503] * 2


@haproxy
@tools
@pytest.mark.parametrize(("key", "up"), [(KEY, "1"), (KEY[:-1], "0")])
def test_the_key_and_the_certificate_open_the_door(
    root: Path, door_of_head: Running, engine: str, key: str, up: str
) -> None:
    written(root, certificate(secret := private_key(), days=90), secret)
    tls = read_certificate(str(root / "tls.crt"), str(root / "tls.key"))
    door_of_head.door.offer(engine)
    door_of_head.change(certificate=tls)
    prometheus = Prometheus(watched(root, door_of_head, key, root / "tls.crt"))
    try:
        until(lambda: prometheus.up().get("engine") == up)
        until(lambda: prometheus.up().get("door") == up)
    finally:
        prometheus.stop()


@pytest.fixture
def door_of_head(root: Path) -> Iterator[Running]:
    with opened(root) as door:
        yield door
