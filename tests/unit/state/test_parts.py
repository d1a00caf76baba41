"""Parts as the program on a Spark reads them: jobs, images, weights, the work of an engine."""

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from host.state import artifacts, docker, engine_api, engines
from sparkwright.artifacts.image.deploy import ImageState
from sparkwright.insight.status.state import EngineLoad
from tests.makers.docker import image_files, serving_docker
from tests.makers.status import COUNTERS, LOAD


def test_the_report_of_a_job_is_no_link(tmp_path: Path) -> None:
    report = {"phase": "verifying", "done": 1, "total": 2, "message": ""}
    for folder in ("jobs", "model", "linked"):
        (tmp_path / folder).mkdir()
    for path in ("jobs/image@5.json", "model/.sparkwright-progress.json"):
        (tmp_path / path).write_text(json.dumps(report))
    (tmp_path / "linked/.sparkwright-progress.json").symlink_to(tmp_path / "jobs/image@5.json")
    names = ("image@5", "weights@model", "weights@linked", "image-copy")
    found = artifacts.jobs(str(tmp_path), names)["jobs"]
    assert [found[name]["progress"] for name in names] == [report, report, None, None]


def test_an_image_is_known_by_any_name_and_told_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "SOCKET", str(tmp_path / "docker.sock"))
    fault = docker.image(["none"])["fault"]
    assert fault.startswith("Docker does not answer: ")
    with serving_docker(tmp_path / "docker.sock") as daemon:
        for name, layer in (("lab/a:1", b"a"), ("lab/b:1", b"b"), ("lab/a:2", b"a")):
            _, daemon.images[name] = image_files(layer)
        found = [
            ImageState.model_validate(docker.image(["absent", name])).image
            for name in ("lab/a:1", "lab/a:2", "lab/b:1", "other")
        ]
    first, same, another, absent = found
    assert first
    assert another
    assert (first, absent) == (same, None)
    assert first.content != another.content


def test_an_environment_that_lacks_its_packages_does_not_work(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    (tmp_path / ".requirements").write_text("a==1\n")
    works = {"requirements": sha256(b"a==1\n").hexdigest()}
    assert artifacts.environment(str(tmp_path)) == works
    # As an upgrade of the system's Python leaves it.
    newer = tmp_path / "python3.99"
    newer.touch(0o755)
    (tmp_path / "bin/python").unlink()
    (tmp_path / "bin/python").symlink_to(newer)
    assert artifacts.environment(str(tmp_path)) == {"requirements": None}
    assert artifacts.environment(str(tmp_path / "none")) == {"requirements": None}


def test_a_folder_of_weights_by_its_record(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / ".cache").mkdir()
    for name in ("right", "touched", "new", "sub/.hidden", ".cache/x", ".sparkwright-partial"):
        (folder / name).write_text("text")
    (folder / "link").symlink_to("right")
    stamp = (folder / "right").stat()
    entry = {"size": 4, "mtime_ns": stamp.st_mtime_ns, "inode": stamp.st_ino, "hash": "a"}
    record = {"files": {"right": entry, "touched": entry, "gone": entry}}
    (folder / ".sparkwright.json").write_text(json.dumps(record))
    found = artifacts.weights(str(tmp_path), ["model", "none"])["folders"]
    assert found["none"] == {"manifest": None, "files": {}}
    assert found["model"]["files"] == {
        "right": {"size": 4, "hash": "a", "changed": False},
        "touched": {"size": 4, "hash": "a", "changed": True},
        "new": {"size": 4, "hash": None, "changed": False},
        "sub/.hidden": {"size": 4, "hash": None, "changed": False},
    }


FIRST = COUNTERS.format(read="100.0", written="1000.0")
SECOND = COUNTERS.format(read="350.0", written="1050.0")


def load(first: str, second: str) -> EngineLoad:
    found = engine_api.between(first, second, 1.25)
    assert found
    return EngineLoad(**found)


def test_the_load_is_the_difference_of_two_looks() -> None:
    """An engine that goes down in between has none; one that starts counts from nothing."""
    assert load(FIRST, SECOND) == LOAD
    assert engine_api.between(FIRST, "", 1.0) is None
    found = load(FIRST, COUNTERS.format(read="1.0", written="3.0"))
    assert (found.tokens, found.prompt_tokens) == (0.0, 0.0)


def test_what_a_vllm_lacks_is_unknown() -> None:
    first, second = (
        "".join(line for line in text.splitlines(True) if not re.search("running|kv_|spec_", line))
        for text in (FIRST, SECOND)
    )
    found = load(first, second)
    assert (found.running, found.kv_usage, found.acceptance) == (None, None, None)
    assert (found.tokens, found.waiting) == (40.0, 2)


# Lines of /metrics as vLLM 0.26.0 and 0.32.0 print them; the numbers are made up.
METRICS = """\
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 44.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 0.0
vllm:request_generation_tokens_bucket{engine="0",le="1.0",model_name="m"} 40.0
vllm:request_generation_tokens_bucket{engine="0",le="2.0",model_name="m"} 41.0
vllm:request_generation_tokens_bucket{engine="0",le="+Inf",model_name="m"} 47.0
"""


def test_how_requests_ended_without_our_probes() -> None:
    assert engine_api.ends(METRICS) == {"cut": 4, "ended": 3}
    assert engine_api.ends("") is None


def test_a_masked_engine_is_named_as_systemd_does_not_list_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("vllm@chat-1.service", "other.service"):
        (tmp_path / name).touch()
    monkeypatch.setattr(engines, "_RUNTIME", str(tmp_path))
    asked: list[str] = []

    def systemd(properties: tuple[str, ...], units: tuple[str, ...]) -> list[dict[str, str]]:
        asked.extend(units)
        return [{"Id": "vllm@chat-1.service", "LoadState": "masked"}]

    monkeypatch.setattr(engines, "systemd", systemd)
    fresh = engines._units.__wrapped__  # type: ignore[attr-defined]
    monkeypatch.setattr(engines, "_units", fresh)
    assert engines.engines()["chat-1"]["masked"]
    assert asked[-3:] == ["vllm@chat-1.service", "vllm@*.service", "switch@*.service"]
