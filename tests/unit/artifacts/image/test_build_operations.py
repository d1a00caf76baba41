"""A built image as a run has it: on the Spark that builds it, and on the worker of a pair."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

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
ABSENT = "Error: No such image: x"
COPY: dict[str, Any] = {"root": "/r", "references": (NAME,), "address": "192.168.100.11"}


def docker(state: str, layers: str) -> Mapping[str, str]:
    return {"--format present": state, "RootFS.Layers": layers}


def test_a_built_image_that_is_here_costs_one_command() -> None:
    spark = fake_host({"--format present": "present"})
    assert not spark.predicts_change(built_image, **BUILD)
    spark.commands.clear()
    assert not spark.run(built_image, **BUILD).did_change()
    assert len(spark.commands) == 1


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [(built_image, BUILD), (image, {"root": "/r", "references": (BASE,), "size": 1})],
)
def test_no_docker_is_no_missing_image(
    operation: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    spark = fake_host({"image inspect": "Cannot connect to the Docker daemon"})
    assert spark.run(operation, **arguments).did_error()
    assert "Docker does not answer: Cannot connect" in spark.scripts()[-1]
    assert not any("systemctl" in script for script in spark.scripts()[:-1])


@pytest.mark.parametrize("base", ["present", ABSENT])
def test_the_base_is_pulled_before_the_build(base: str) -> None:
    pull, build = f"image@{'5' * 12}", f"image-build@{'a' * 12}"
    failed = '{"phase": "failed", "done": 1, "total": 2, "message": "It failed.\\nrun again"}'
    spark = fake_host(
        {
            f"present {NAME}": ABSENT,
            f"present {BASE}": base,
            f"for job in {pull};": f"{pull}\tinactive\t",
            f"for job in {build};": f"{build}\tfailed\t{failed}",
        }
    )
    assert spark.run(built_image, **BUILD).did_error()
    started = [script for script in spark.scripts() if "systemctl start" in script]
    job = build if base == "present" else pull
    assert [script.rpartition(" ")[2] for script in started] == [f"{job}.service"]
    if base == "present":
        assert "It failed.\nrun again" in spark.scripts()[-1]


@pytest.mark.parametrize(
    ("state", "layers", "same"),
    [("present", '["a"]', True), ("present", '["b"]', False), (ABSENT, "", False)],
)
def test_what_a_worker_has_counts_if_the_head_has_the_same(
    state: str, layers: str, same: bool
) -> None:
    worker = fake_host(docker(state, layers))
    with fake_host(docker("present", '["a"]')).current() as head:
        pass
    assert worker.predicts_change(copied_image, head=head, **COPY) is not same


def test_the_head_is_asked_by_ssh_what_it_has_built() -> None:
    there = fake_host({**docker("present", '["a"]'), "{{.Id}}": "sha256:1"})
    with there.current() as head:
        pass
    for worker, asked in (
        (fake_host(docker("present", '["a"]')), False),
        (fake_host(docker(ABSENT, "")), True),
    ):
        there.commands.clear()
        worker.predicts_change(copied_image, head=head, **COPY)
        assert any("{{.Id}}" in str(command) for command in there.commands) is asked


@pytest.mark.parametrize("layers", ['["a"]', '["b"]'])
def test_a_head_offers_what_the_worker_has_not(layers: str) -> None:
    head = fake_host(docker("present", '["a"]'))
    with fake_host(docker("present", layers)).current() as worker:
        pass
    arguments = {"root": "/r", "references": (NAME,), "peer": worker}
    assert head.predicts_change(offered_image, **arguments) is (layers != '["a"]')
