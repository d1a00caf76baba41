"""What a Spark tells of GPU and engine."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from host.insight.monitoring import metrics
from host.state import status
from tests.component.monitoring.given import worker, write_metrics
from tests.component.servers import free_port
from tests.programs import host_program

OWN = """\
# HELP spark_gpu_clock_hertz Clock of the GPU's multiprocessors.
# TYPE spark_gpu_clock_hertz gauge
spark_gpu_clock_hertz{spark="spark-a"} 2405000000
"""


def values(text: str) -> dict[str, float]:
    """Return what a text says, and check that it is in Prometheus' format."""
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "metrics"], input=text, text=True, check=True)
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def told(root: Path) -> str:
    """Return what the program prints."""
    return subprocess.check_output(host_program("metrics", root), text=True)


def test_of_several_gpus_the_largest_is_watched(root: Path) -> None:
    """It is the one that was judged, and that the engine has: a card for a display comes first."""
    smi = root / "bin/nvidia-smi"
    smi.write_text(
        "#!/bin/sh\necho 'A, 1, 8192, 8000, 192, 210, 9.1, 35, 2, 0x0'\n"
        "echo 'B, 1, 32607, 700, 31907, 2400, 310.5, 66, 97, 0x0'\n"
    )
    found = values(told(root))
    assert found['spark_gpu_clock_hertz{spark="spark-a"}'] == 2400e6
    assert found['spark_gpu_memory_total_bytes{spark="spark-a"}'] == 32607 * 1024**2


def test_a_head_tells_whose_keys_are_used_at_each_of_its_doors(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told:
        def __init__(self, place: Path) -> None:
            self.haproxy, self.parts = self, len(place.parts)

        def names(self) -> dict[str, tuple[int, int, int]]:
            return {"ann": (self.parts, 1, 3), "prometheus": (4, 0, 0)}

        def held(self) -> tuple[int, int]:
            return 2, 5

    monkeypatch.setattr(metrics, "Door", Told)
    assert not [name for name in values(metrics.text_of(metrics.own(root))) if "door" in name]
    seat = root / "seats/embed"
    for folder in (root / "door", seat / "door"):
        folder.mkdir(parents=True)
    (seat / "current").symlink_to("releases/other-1")
    found = values(metrics.text_of(metrics.own(root)))
    first = found['spark_door_requests_total{spark="spark-a",key="ann"}']
    assert found['spark_door_requests_total{spark="spark-a",key="ann",seat="embed"}'] == first + 2
    assert found['spark_door_requests_in_flight{spark="spark-a",key="ann"}'] == 1
    assert found['spark_door_requests_total{spark="spark-a",key="prometheus"}'] == 4
    assert found['spark_door_requests_held_total{spark="spark-a",key="ann"}'] == 3
    assert found['spark_door_requests_waiting{spark="spark-a"}'] == 2
    assert found['spark_door_requests_given_up_total{spark="spark-a"}'] == 5
    assert found['spark_engine_active{spark="spark-a"}'] == 1
    assert found['spark_engine_active{spark="spark-a",seat="embed"}'] == 1


def test_a_model_that_requests_start_tells_of_its_turns(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = {"phase": "starting", "closed": False, "waiting": 2, "starts": 3, "hits": 120}
    said |= {"refused": 1, "seconds": 95, "why": ""}
    (root / "manifests").mkdir()
    declared = {"chat": {"seat": "", "on_demand": True}}
    (root / "manifests/turns.json").write_text(json.dumps({"replicas": declared}))
    (tmp_path / "turns.json").write_text(json.dumps({"chat": said}))
    monkeypatch.setattr(status, "_TURNS", str(tmp_path))
    found = values(metrics.text_of(metrics.own(root)))
    assert {name: value for name, value in found.items() if "_turn_" in name} == {
        'spark_turn_starting{spark="spark-a"}': 1,
        'spark_turn_starts_total{spark="spark-a"}': 3,
        'spark_turn_hits_total{spark="spark-a"}': 120,
        'spark_turn_refused_total{spark="spark-a"}': 1,
        'spark_turn_start_seconds{spark="spark-a"}': 95,
    }


def test_a_spark_tells_of_its_gpu_and_its_engine(root: Path) -> None:
    text = told(root)
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
    found = values(metrics.text_of(metrics.own(tmp_path)))
    names = {name.partition("{")[0] for name in found}
    assert names == {"spark_memory_available_bytes", "spark_memory_total_bytes"}


def written(root: Path) -> dict[str, float]:
    """Return what the program writes, as the head's timer has it do."""
    file = write_metrics(root)
    assert [each.name for each in file.parent.iterdir()] == ["spark.prom"]
    return values(file.read_text())


def test_the_head_writes_what_its_worker_tells_too(root: Path) -> None:
    says = OWN.replace("spark-a", "spark-b").encode() + (
        b'spark_engine_restarts_total{spark="spark-b"} 1\n'
        # Whatever else is there does not get in.
        b'node_load1{spark="spark-b"} 1\nspark_gpu_power_watts{spark="spark-a"} 9\n'
        b'spark_gpu_power_watts{spark="spark-b"} 1} 2\nnonsense \xc3\xa4\n'
    )
    with worker(says):
        found = written(root)
    assert found['spark_gpu_clock_hertz{spark="spark-b"}'] == 2405e6
    assert found['spark_engine_restarts_total{spark="spark-b"}'] == 1
    assert found['spark_gpu_power_watts{spark="spark-a"}'] == 61.42
    assert found['spark_peer_answers{spark="spark-b"}'] == 1
    assert len([name for name in found if "spark-b" in name]) == 3


@pytest.mark.parametrize("says", [None, b"", b"\xff\xfe", b"x" * 100_000])
def test_a_worker_that_tells_nothing_is_told_of(root: Path, says: bytes | None) -> None:
    if says is None:
        metrics.PORT = free_port()
        found = written(root)
    else:
        with worker(says):
            found = written(root)
    assert found['spark_peer_answers{spark="spark-b"}'] == 0
    assert found['spark_gpu_power_watts{spark="spark-a"}'] == 61.42


def test_each_worker_of_a_group_is_asked(root: Path) -> None:
    file = root / "releases/tiny-1/unit.json"
    fabric = [["192.168.100.11"], ["127.0.0.1"], ["127.0.0.2"]]
    unit = {"sparks": ["spark-a", "spark-b", "spark-c"], "fabric": fabric}
    file.write_text(json.dumps({**unit, "rank": 0}))
    with worker(OWN.replace("spark-a", "spark-b").encode()):
        found = written(root)
    assert found['spark_gpu_clock_hertz{spark="spark-b"}'] == 2405e6
    answers = {spark: found[f'spark_peer_answers{{spark="spark-{spark}"}}'] for spark in "bc"}
    assert answers == {"b": 1, "c": 0}
    file.write_text(json.dumps({**unit, "rank": 2}))
    assert not [name for name in written(root) if "peer" in name or "spark-c" not in name]
