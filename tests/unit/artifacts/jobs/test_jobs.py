"""Jobs as a run sees them: their environment, and what is said of one that has ended."""

from hashlib import sha256

from sparkwright.artifacts.jobs.deploy import JobState, reason, virtual_environment
from sparkwright.common.progress import JobProgress
from tests.unit.driven import fake_host

TEXT = "huggingface-hub==2.4.0\n"
OTHER = {"artifacts.environment": {"requirements": None}}
ENVIRONMENT = {"path": "/r/hf", "requirements": "/r/bin/requirements.txt", "text": TEXT}
# One at a time, also beside what a killed run has begun.
LOCK = "flock /run/lock/sparkwright-environment "


def test_an_environment_with_the_same_requirements_stays() -> None:
    known = {"requirements": sha256(TEXT.encode()).hexdigest()}
    spark = fake_host(state={"artifacts.environment": known})
    assert not spark.run(virtual_environment, **ENVIRONMENT).did_change()
    assert spark.commands == []


def test_the_environment_is_stamped_last_and_comes_by_the_proxy() -> None:
    spark = fake_host(state=OTHER, root="/r", proxy="http://proxy.lan:3128")
    assert spark.run(virtual_environment, **ENVIRONMENT).did_change()
    *_, make, install, stamp = spark.scripts()
    assert make.startswith(f"{LOCK}python3 -m venv --clear")
    proxy = "env http_proxy=http://proxy.lan:3128 https_proxy=http://proxy.lan:3128 no_proxy="
    assert install.startswith(f"{LOCK}{proxy}")
    assert "--no-deps --require-hashes --only-binary :all: " in install
    assert "--requirement /r/bin/requirements.txt" in install
    assert stamp == "cp /r/bin/requirements.txt /r/hf/.requirements"


def test_a_failed_installation_leaves_no_stamp() -> None:
    failing = {"pip install": {"success": False, "stderr": "no network"}}
    spark = fake_host(failing, state=OTHER, root="/r")
    assert spark.run(virtual_environment, **ENVIRONMENT).did_error()
    assert spark.scripts()[-1].startswith(f"{LOCK}/r/hf/bin/python -m pip install")


def test_the_reason_of_a_job_that_did_not_say_one() -> None:
    state = JobState(active="failed", progress=JobProgress("downloading", 1, 2, ""))
    assert "look with `journalctl -u weights@a`" in reason("weights@a", state)
