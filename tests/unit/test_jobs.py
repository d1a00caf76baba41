"""Jobs as a run sees them: their environment, their state, and how it is followed."""

import logging
from hashlib import sha256

import pytest

from deploys.facts.jobs import ImageState, JobState, JobStates
from deploys.operations.image import image
from deploys.operations.jobs import LOST, reason, virtual_environment
from deploys.plan.progress import Progress
from tests.unit.driven import fake_host

IMAGE = f"example.org/vllm@sha256:{'5' * 64}"
TEXT = "huggingface-hub==2.4.0\n"
ENVIRONMENT = {"path": "/r/hf", "requirements": "/r/bin/requirements.txt", "text": TEXT}


def test_an_environment_with_the_same_requirements_stays() -> None:
    digest = sha256(TEXT.encode()).hexdigest()
    spark = fake_host({"sha256sum": f"{digest}  .requirements"})
    assert not spark.run(virtual_environment, **ENVIRONMENT).did_change()
    assert len(spark.commands) == 1


def test_the_environment_is_stamped_last() -> None:
    spark = fake_host({"sha256sum": f"{'0' * 64}  .requirements"})
    assert spark.run(virtual_environment, **ENVIRONMENT).did_change()
    *_, install, stamp = spark.scripts()
    assert "--require-hashes --only-binary :all: --requirement /r/bin/requirements.txt" in install
    assert stamp == "cp /r/bin/requirements.txt /r/hf/.requirements"


def test_a_failed_installation_leaves_no_stamp() -> None:
    spark = fake_host({"pip install": {"success": False, "stderr": "no network"}})
    assert spark.run(virtual_environment, **ENVIRONMENT).did_error()
    assert "pip install" in spark.scripts()[-1]


def test_states_of_two_jobs() -> None:
    lines = [
        'weights@a\tactive\t{"phase": "verifying", "done": 1, "total": 2, "message": ""}',
        "weights@b\tinactive\t",
    ]
    assert JobStates().process(lines) == {
        "weights@a": JobState("active", Progress("verifying", 1, 2, "")),
        "weights@b": JobState("inactive", None),
    }


@pytest.mark.parametrize(
    ("output", "state"),
    [
        (["present"], "present"),
        (["", f"Error response from daemon: No such image: {IMAGE}"], "absent"),
        (["Cannot connect to the Docker daemon at unix:///x."], "Cannot connect to the"),
        (["sh: 1: docker: not found"], "sh: 1: docker: not found"),
    ],
)
def test_absent_is_not_unknown(output: list[str], state: str) -> None:
    assert ImageState().process(output).startswith(state)


def test_an_image_that_is_here_costs_one_command() -> None:
    spark = fake_host({"image inspect": "present"})
    assert not spark.run(image, root="/r", image=IMAGE, size=1).did_change()
    assert len(spark.commands) == 1


def test_no_docker_is_no_missing_image() -> None:
    spark = fake_host({"image inspect": "Cannot connect to the Docker daemon"})
    assert spark.run(image, root="/r", image=IMAGE, size=1).did_error()
    assert "Docker does not answer: Cannot connect" in spark.scripts()[-1]
    assert not any("systemctl" in script for script in spark.scripts()[:-1])


def test_a_missing_image_is_pulled_by_a_unit_and_a_failure_told() -> None:
    failed = '{"phase": "failed", "done": 0, "total": 1, "message": "The disk is full."}'
    spark = fake_host(
        {
            "image inspect": "Error: No such image: x",
            "ActiveState": f"image@{'5' * 12}\tfailed\t{failed}",
        }
    )
    assert spark.run(image, root="/r", image=IMAGE, size=1).did_error()
    start = f"systemctl daemon-reload && systemctl start image@{'5' * 12}.service"
    assert start in spark.scripts()
    assert "The disk is full." in spark.scripts()[-1]


def test_a_lost_connection_says_that_the_job_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lost = {"success": False, "stderr": "connection lost"}
    spark = fake_host({"image inspect": "Error: No such image: x", "ActiveState": lost})
    assert spark.run(image, root="/r", image=IMAGE, size=1).did_error()
    assert LOST in caplog.text


def test_the_reason_of_a_job_that_did_not_say_one() -> None:
    state = JobState("failed", Progress("downloading", 1, 2, ""))
    assert "look with `journalctl -u weights@a`" in reason("weights@a", state)
