"""Jobs, images and their environment, as the program on a Spark reads them."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from host.state import artifacts, docker
from sparkwright.artifacts.image.deploy import ImageState
from tests.makers.docker import image_files, serving_docker


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
    assert artifacts.environment(str(tmp_path / "none")) == {"requirements": None}
    (tmp_path / "bin").mkdir()
    (tmp_path / ".requirements").write_text("a==1\n")
    python = tmp_path / "bin/python"
    python.touch(0o755)
    for status, expected in ((1, None), (0, sha256(b"a==1\n").hexdigest())):
        python.write_text(f"#!/bin/sh\nexit {status}\n")
        assert artifacts.environment(str(tmp_path)) == {"requirements": expected}


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
