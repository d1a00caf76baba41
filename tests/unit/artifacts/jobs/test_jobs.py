"""Jobs as a run sees them: their environment, their state, and how it is followed."""

import json
import logging
from hashlib import sha256
from typing import Any

import pytest

from sparkwright.artifacts.image import operations
from sparkwright.artifacts.image.operations import copied_image, image, offered_image
from sparkwright.artifacts.jobs.operations import LOST, reason, virtual_environment
from sparkwright.artifacts.jobs.state import JobState
from sparkwright.common.errors import PlanError
from sparkwright.common.progress import JobProgress
from sparkwright.plan.release.registry_login import RegistryLogin, mirrored
from tests.unit.driven import Driven, fake_host

REFERENCES = (f"example.org/vllm@sha256:{'5' * 64}", f"sha256:{'5' * 64}", f"sha256:{'6' * 64}")
IMAGE = REFERENCES[0]
LACKS = {"docker.image": {"image": None, "fault": ""}}
HAS = {"docker.image": {"image": {"id": "sha256:1", "size": 1, "content": "a"}, "fault": ""}}
TEXT = "huggingface-hub==2.4.0\n"
OTHER = {"artifacts.environment": {"requirements": None}}
ENVIRONMENT = {"path": "/r/hf", "requirements": "/r/bin/requirements.txt", "text": TEXT}


def failed(job: str, message: str) -> dict[str, Any]:
    """Return the part of a job that has failed."""
    progress = {"phase": "failed", "done": 0, "total": 1, "message": message}
    return {"artifacts.jobs": {"jobs": {job: {"active": "failed", "progress": progress}}}}


def test_an_environment_with_the_same_requirements_stays() -> None:
    spark = fake_host(
        state={"artifacts.environment": {"requirements": sha256(TEXT.encode()).hexdigest()}}
    )
    assert not spark.run(virtual_environment, **ENVIRONMENT).did_change()
    assert spark.commands == []


def test_the_environment_is_stamped_last() -> None:
    spark = fake_host(state=OTHER, root="/r")
    assert spark.run(virtual_environment, **ENVIRONMENT).did_change()
    *_, make, install, stamp = spark.scripts()
    # One at a time, also beside what a killed run has begun.
    lock = "flock /run/lock/sparkwright-environment "
    assert make.startswith(f"{lock}python3 -m venv --clear")
    assert install.startswith(lock)
    assert "--no-deps --require-hashes --only-binary :all: " in install
    assert "--requirement /r/bin/requirements.txt" in install
    assert stamp == "cp /r/bin/requirements.txt /r/hf/.requirements"


def test_a_failed_installation_leaves_no_stamp() -> None:
    failing = {"pip install": {"success": False, "stderr": "no network"}}
    spark = fake_host(failing, state=OTHER, root="/r")
    assert spark.run(virtual_environment, **ENVIRONMENT).did_error()
    assert "pip install" in spark.scripts()[-1]


def test_a_missing_image_is_pulled_by_a_unit_and_a_failure_told() -> None:
    spark = fake_host(state=LACKS | failed(f"image@{'5' * 12}", "The disk is full."))
    assert spark.run(image, root="/r", references=REFERENCES, size=1).did_error()
    start = f"systemctl daemon-reload && systemctl start image@{'5' * 12}.service"
    assert start in spark.scripts()
    assert "The disk is full." in spark.scripts()[-1]


class TestLogin:
    """What Docker knows on this machine of the registry, on its way to the job."""

    LOGIN = RegistryLogin("example.org", "reader", "s3cret", "config.json")

    @pytest.fixture
    def spark(self) -> Driven:
        return fake_host(state=LACKS | failed(f"image@{'5' * 12}", "It failed."))

    def test_it_comes_by_standard_input(
        self, spark: Driven, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        asked: list[str] = []
        monkeypatch.setattr(operations, "login_of", lambda name: asked.append(name) or self.LOGIN)
        spark.run(image, root="/r", references=REFERENCES, size=1)
        assert asked == ["example.org"]
        start = f"systemctl daemon-reload && systemctl start image@{'5' * 12}.service"
        ((command, given),) = [each for each in spark.commands if start in each[0]]
        file = f"/run/sparkwright-login-{'5' * 12}"
        assert command.startswith(f"umask 077 && rm -f {file} && cat > {file} && {start} ||")
        assert json.loads(given)["password"] == "s3cret"
        assert not any("s3cret" in script for script in [*spark.scripts(), caplog.text])
        assert "s3cret" not in repr(self.LOGIN)

    def test_that_of_the_mirror_is_asked_for(
        self, spark: Driven, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        monkeypatch.setattr(operations, "login_of", asked.append)
        source = mirrored(IMAGE, {"example.org": "harbor.lan:5000/org"})
        spark.run(image, root="/r", references=REFERENCES, size=1, source=source)
        assert asked == ["harbor.lan:5000"]
        orders = [given for _, given in spark.commands if given]
        assert orders == []

    def test_a_damaged_configuration_is_an_error_before_any_change(
        self, spark: Driven, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def damaged(_: str) -> None:
            raise PlanError("config.json: found no JSON object; mend it")

        monkeypatch.setattr(operations, "login_of", damaged)
        assert spark.run(image, root="/r", references=REFERENCES, size=1).did_error()
        assert not any("systemctl" in script for script in spark.scripts()[:-1])
        assert "mend it" in spark.scripts()[-1]

    def test_what_is_here_asks_for_no_login(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operations, "login_of", lambda _: pytest.fail("asked"))
        spark = fake_host(state=HAS)
        assert not spark.run(image, root="/r", references=REFERENCES, size=1).did_change()
        assert spark.commands == []


def test_packages_come_by_the_proxy() -> None:
    spark = fake_host(state=OTHER, root="/r", proxy="http://proxy.lan:3128")
    assert spark.run(virtual_environment, **ENVIRONMENT).did_change()
    (install,) = [script for script in spark.scripts() if "pip install" in script]
    proxy = "env http_proxy=http://proxy.lan:3128 https_proxy=http://proxy.lan:3128 no_proxy="
    assert install.startswith(f"flock /run/lock/sparkwright-environment {proxy}")


def test_an_image_is_offered_while_the_other_spark_lacks_it() -> None:
    for found, offered in ((LACKS, True), (HAS, False)):
        head = fake_host()
        with fake_host(state=found).current() as peer:
            pass
        arguments = {"root": "/r", "references": REFERENCES, "peer": peer}
        assert head.predicts_change(offered_image, **arguments) is offered
        assert head.run(offered_image, **arguments).did_succeed()
        starts = "systemctl start fabric-image.socket"
        assert [starts in script for script in head.scripts()] == [True] * offered


def test_a_missing_image_is_copied_by_a_unit_and_a_failure_told() -> None:
    worker = fake_host(state=LACKS | failed("image-copy", "The cable is cut."))
    with fake_host(state=HAS).current() as head:
        pass
    arguments = {"root": "/r", "references": REFERENCES, "address": "192.168.100.11", "head": head}
    assert worker.predicts_change(copied_image, **arguments)
    assert worker.run(copied_image, **arguments).did_error()
    assert "systemctl daemon-reload && systemctl start image-copy.service" in worker.scripts()
    assert "The cable is cut." in worker.scripts()[-1]


def test_the_head_copies_nothing() -> None:
    head = fake_host()
    with fake_host().current() as worker:
        pass
    arguments = {"root": "/r", "references": (), "address": "", "head": worker}
    assert not head.run(copied_image, **arguments).did_change()
    assert head.commands == []


def test_a_lost_connection_says_that_the_job_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    spark = fake_host(state=LACKS)
    assert spark.run(image, root="/r", references=REFERENCES, size=1).did_error()
    assert LOST in caplog.text


def test_the_reason_of_a_job_that_did_not_say_one() -> None:
    state = JobState(active="failed", progress=JobProgress("downloading", 1, 2, ""))
    assert "look with `journalctl -u weights@a`" in reason("weights@a", state)
