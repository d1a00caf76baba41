"""A built image as a run has it: on the Spark that builds it, and on the worker of a pair."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sparkwright.artifacts.image import operations
from sparkwright.artifacts.image.operations import built_image, copied_image, image, offered_image
from tests.unit.driven import fake_host

NAME = f"sparkwright/mine:{'a' * 12}"
BASE = f"example.org/vllm@sha256:{'5' * 64}"
BUILD = {
    "root": "/r",
    "references": (NAME,),
    "base": BASE,
    "size": 1,
    "recipe": {"args": {}, "files": {"Dockerfile": "FROM x\n"}},
}
COPY: dict[str, Any] = {"root": "/r", "references": (NAME,), "address": "192.168.100.11"}


def docker(content: str) -> dict[str, Any]:
    """Return a Docker that has an image of this content, or none."""
    found = {"id": "sha256:1", "size": 1, "content": content}
    return {"docker.image": {"image": found if content else None, "fault": ""}}


def test_a_built_image_that_is_here_costs_one_command() -> None:
    spark = fake_host(state=docker("a"))
    assert not spark.predicts_change(built_image, **BUILD)
    spark.asked.clear()
    assert not spark.run(built_image, **BUILD).did_change()
    assert (spark.commands, spark.asked) == ([], [["docker.image"]])


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [(built_image, BUILD), (image, {"root": "/r", "references": (BASE,), "size": 1})],
)
def test_no_docker_is_no_missing_image(
    operation: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    fault = "Docker does not answer: Cannot connect"
    spark = fake_host(state={"docker.image": {"image": None, "fault": fault}})
    assert spark.run(operation, **arguments).did_error()
    assert "Docker does not answer: Cannot connect" in spark.scripts()[-1]
    assert not any("systemctl" in script for script in spark.scripts()[:-1])


@pytest.mark.parametrize("base", [True, False])
def test_the_base_is_pulled_before_the_build(base: bool) -> None:
    pull, build = f"image@{'5' * 12}", f"image-build@{'a' * 12}"
    failed = {"phase": "failed", "done": 1, "total": 2, "message": "It failed.\nrun again"}
    jobs = {
        pull: {"active": "inactive", "progress": None},
        build: {"active": "failed", "progress": failed},
    }

    def images(references: list[str]) -> Any:
        return docker("a" if base and references == [BASE] else "")["docker.image"]

    spark = fake_host(state={"docker.image": images, "artifacts.jobs": {"jobs": jobs}})
    assert spark.run(built_image, **BUILD).did_error()
    started = [script for script in spark.scripts() if "systemctl start" in script]
    job = build if base else pull
    assert [script.rpartition(" ")[2] for script in started] == [f"{job}.service"]
    if base:
        assert "It failed.\nrun again" in spark.scripts()[-1]


@pytest.mark.parametrize("content", ["a", "b", ""])
def test_what_a_worker_has_counts_if_the_head_has_the_same(content: str) -> None:
    worker = fake_host(state=docker(content))
    with fake_host(state=docker("a")).current() as head:
        pass
    assert worker.predicts_change(copied_image, head=head, **COPY) is (content != "a")


def test_the_head_says_by_ssh_what_it_has_built(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[str] = []
    monkeypatch.setattr(operations, "put_manifest", lambda *given: orders.append(given[-1]) or ())
    failed = {"jobs": {"image-copy": {"active": "failed", "progress": None}}}
    worker = fake_host(state=docker("") | {"artifacts.jobs": failed})
    with fake_host(state=docker("a")).current() as head:
        pass
    worker.run(copied_image, head=head, **COPY)
    assert [json.loads(order)["ids"] for order in orders] == [["sha256:1"]]


@pytest.mark.parametrize("content", ["a", "b"])
def test_a_head_offers_what_the_worker_has_not(content: str) -> None:
    head = fake_host(state=docker("a"))
    with fake_host(state=docker(content)).current() as worker:
        pass
    arguments = {"root": "/r", "references": (NAME,), "peer": worker}
    assert head.predicts_change(offered_image, **arguments) is (content != "a")
