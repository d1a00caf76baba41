"""Jobs as a run sees them: their environment, their state, and how it is followed."""

import logging
from hashlib import sha256

import pytest

from sparkwright.common.progress import JobProgress
from sparkwright.image.operations import copied_image, exported_image, image
from sparkwright.jobs.facts import ImageState, JobState, JobStates
from sparkwright.jobs.operations import LOST, reason, virtual_environment
from tests.unit.driven import fake_host

REFERENCES = (f"example.org/vllm@sha256:{'5' * 64}", f"sha256:{'5' * 64}", f"sha256:{'6' * 64}")
IMAGE = REFERENCES[0]
TEXT = "huggingface-hub==2.4.0\n"
ENVIRONMENT = {"path": "/r/hf", "requirements": "/r/bin/requirements.txt", "text": TEXT}


def test_an_environment_with_the_same_requirements_stays() -> None:
    digest = sha256(TEXT.encode()).hexdigest()
    spark = fake_host({"sha256sum": f"{digest}  .requirements"})
    assert not spark.run(virtual_environment, **ENVIRONMENT).did_change()
    assert len(spark.commands) == 1


def test_the_environment_is_stamped_last() -> None:
    spark = fake_host({"sha256sum": f"{'0' * 64}  .requirements"}, root="/r")
    assert spark.run(virtual_environment, **ENVIRONMENT).did_change()
    *_, make, install, stamp = spark.scripts()
    # One at a time, also beside what a killed run has begun.
    lock = "flock /run/lock/sparkwright-environment "
    assert make.startswith(f"{lock}python3 -m venv --clear")
    assert install.startswith(lock)
    assert "--require-hashes --only-binary :all: --requirement /r/bin/requirements.txt" in install
    assert stamp == "cp /r/bin/requirements.txt /r/hf/.requirements"


def test_a_failed_installation_leaves_no_stamp() -> None:
    spark = fake_host({"pip install": {"success": False, "stderr": "no network"}}, root="/r")
    assert spark.run(virtual_environment, **ENVIRONMENT).did_error()
    assert "pip install" in spark.scripts()[-1]


def test_states_of_two_jobs() -> None:
    lines = [
        'weights@a\tactive\t{"phase": "verifying", "done": 1, "total": 2, "message": ""}',
        "weights@b\tinactive\t",
    ]
    assert JobStates().process(lines) == {
        "weights@a": JobState("active", JobProgress("verifying", 1, 2, "")),
        "weights@b": JobState("inactive", None),
    }


@pytest.mark.parametrize(
    ("output", "state"),
    [
        (["present"], "present"),
        (["present", f"Error response from daemon: No such image: {IMAGE}"], "present"),
        (["", f"Error response from daemon: No such image: {IMAGE}"], "absent"),
        (["Cannot connect to the Docker daemon at unix:///x."], "Cannot connect to the"),
        (["sh: 1: docker: not found"], "sh: 1: docker: not found"),
    ],
)
def test_absent_is_not_unknown(output: list[str], state: str) -> None:
    assert ImageState().process(output).startswith(state)


def test_an_image_that_is_here_costs_one_command() -> None:
    spark = fake_host({"image inspect": "present"})
    assert not spark.run(image, root="/r", references=REFERENCES, size=1).did_change()
    assert len(spark.commands) == 1


def test_no_docker_is_no_missing_image() -> None:
    spark = fake_host({"image inspect": "Cannot connect to the Docker daemon"})
    assert spark.run(image, root="/r", references=REFERENCES, size=1).did_error()
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
    assert spark.run(image, root="/r", references=REFERENCES, size=1).did_error()
    start = f"systemctl daemon-reload && systemctl start image@{'5' * 12}.service"
    assert start in spark.scripts()
    assert "The disk is full." in spark.scripts()[-1]


def test_an_image_that_the_other_spark_lacks_is_exported() -> None:
    done = '{"phase": "done", "done": 1, "total": 1, "message": ""}'
    head = fake_host({"ActiveState": f"image-export@{'5' * 12}\tinactive\t{done}"})
    with fake_host({"image inspect": "Error: No such image: x"}).current() as peer:
        pass
    arguments = {"root": "/r", "references": REFERENCES, "peer": peer}
    assert head.predicts_change(exported_image, **arguments)
    result = head.run(exported_image, **arguments)
    assert result.did_change()
    assert result.did_succeed()
    start = f"systemctl daemon-reload && systemctl start image-export@{'5' * 12}.service"
    assert start in head.scripts()


def test_an_image_that_the_other_spark_has_is_not_exported() -> None:
    head = fake_host()
    with fake_host({"image inspect": "present"}).current() as peer:
        pass
    arguments = {"root": "/r", "references": REFERENCES, "peer": peer}
    assert not head.predicts_change(exported_image, **arguments)
    assert not head.run(exported_image, **arguments).did_change()
    assert head.commands == []


def test_a_missing_image_is_copied_by_a_unit_and_a_failure_told() -> None:
    failed = '{"phase": "failed", "done": 0, "total": 1, "message": "The cable is cut."}'
    worker = fake_host(
        {
            "image inspect": "Error: No such image: x",
            "ActiveState": f"image-copy\tfailed\t{failed}",
        }
    )
    with fake_host().current() as head:
        pass
    share = "http://192.168.100.11:29502"
    arguments = {"root": "/r", "references": REFERENCES, "share": share, "head": head}
    assert worker.predicts_change(copied_image, **arguments)
    assert worker.run(copied_image, **arguments).did_error()
    assert "install -d -m 755 /r/imports" in worker.scripts()
    assert "systemctl daemon-reload && systemctl start image-copy.service" in worker.scripts()
    assert "The cable is cut." in worker.scripts()[-1]


def test_the_head_copies_nothing() -> None:
    head = fake_host()
    with fake_host().current() as worker:
        pass
    arguments = {"root": "/r", "references": (), "share": "", "head": worker}
    assert not head.run(copied_image, **arguments).did_change()
    assert head.commands == []


def test_a_lost_connection_says_that_the_job_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lost = {"success": False, "stderr": "connection lost"}
    spark = fake_host({"image inspect": "Error: No such image: x", "ActiveState": lost})
    assert spark.run(image, root="/r", references=REFERENCES, size=1).did_error()
    assert LOST in caplog.text


def test_the_reason_of_a_job_that_did_not_say_one() -> None:
    state = JobState("failed", JobProgress("downloading", 1, 2, ""))
    assert "look with `journalctl -u weights@a`" in reason("weights@a", state)
