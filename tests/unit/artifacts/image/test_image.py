"""An engine's image as a run has it, pulled, built or copied; jobs, and their environment."""

import json
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from sparkwright.artifacts.image import deploy
from sparkwright.artifacts.image.deploy import built_image, copied_image, image, offered_image
from sparkwright.artifacts.jobs.deploy import LOST, start, virtual_environment
from sparkwright.common.errors import PlanError
from sparkwright.common.ports import IMAGE_PORT
from sparkwright.plan.release.registry_login import RegistryLogin, mirrored
from tests.unit.driven import Driven, fake_host

NAME = f"sparkwright/mine:{'a' * 12}"
BASE = f"example.org/vllm@sha256:{'5' * 64}"
BUILD = {
    "root": "/r",
    "references": (NAME,),
    "base": BASE,
    "size": 1,
    "arguments": {},
    "files": {"Dockerfile": "FROM x\n"},
}
PULL = {
    "root": "/r",
    "references": (BASE, f"sha256:{'5' * 64}", f"sha256:{'6' * 64}"),
    "source": BASE,
    "size": 1,
}
JOB = f"image@{'5' * 12}"

START = start(JOB).get_raw_value()
COPY: dict[str, Any] = {"root": "/r", "references": (NAME,), "address": "192.168.100.11"}


def docker(content: str) -> dict[str, Any]:
    found = {"id": "sha256:1", "size": 1, "content": content}
    return {"docker.image": {"image": found if content else None, "fault": ""}}


def failed(job: str, message: str) -> dict[str, Any]:
    progress = {"phase": "failed", "done": 0, "total": 1, "message": message}
    return {"artifacts.jobs": {"jobs": {job: {"active": "failed", "progress": progress}}}}


@pytest.mark.parametrize(("operation", "arguments"), [(built_image, BUILD), (image, PULL)])
def test_an_image_that_is_here_takes_one_command_and_no_docker_is_no_missing_image(
    operation: Callable[..., Any], arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy, "login_of", lambda _: pytest.fail("asked"))
    spark = fake_host(state=docker("a"))
    assert not spark.predicts_change(operation, **arguments)
    spark.asked.clear()
    assert not spark.run(operation, **arguments).did_change()
    assert (spark.commands, spark.asked) == ([], [["docker.image"]])
    fault = "Docker does not answer: Cannot connect"
    spark = fake_host(state={"docker.image": {"image": None, "fault": fault}})
    assert spark.run(operation, **arguments).did_error()
    assert fault in spark.scripts()[-1]
    assert not any("systemctl" in script for script in spark.scripts()[:-1])


def test_a_lost_connection_says_that_the_job_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert fake_host(state=docker("")).run(image, **PULL).did_error()
    assert LOST in caplog.text


class TestLogin:
    """What Docker knows on this machine of the registry, on its way to the job."""

    LOGIN = RegistryLogin("example.org", "reader", "s3cret", "config.json")

    @pytest.fixture
    def spark(self) -> Driven:
        return fake_host(state=docker("") | failed(JOB, "It failed."))

    def test_it_comes_by_standard_input(
        self, spark: Driven, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        asked: list[str] = []
        monkeypatch.setattr(deploy, "login_of", lambda name: asked.append(name) or self.LOGIN)
        spark.run(image, **PULL)
        assert asked == ["example.org"]
        ((command, given),) = [each for each in spark.commands if START in each[0]]
        file = f"/run/sparkwright-login-{'5' * 12}"
        assert command.startswith(f"umask 077 && rm -f {file} && cat > {file} && {START} ||")
        assert json.loads(given)["password"] == "s3cret"
        assert not any("s3cret" in script for script in [*spark.scripts(), caplog.text])
        assert "s3cret" not in repr(self.LOGIN)

    def test_that_of_the_mirror_is_asked_for(
        self, spark: Driven, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        monkeypatch.setattr(deploy, "login_of", asked.append)
        source = mirrored(BASE, {"example.org": "harbor.lan:5000/org"})
        spark.run(image, **PULL | {"source": source})
        assert asked == ["harbor.lan:5000"]
        assert [given for _, given in spark.commands if given] == []

    def test_a_damaged_configuration_is_an_error_before_any_change(
        self, spark: Driven, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def damaged(_: str) -> None:
            raise PlanError("config.json: found no JSON object; mend it")

        monkeypatch.setattr(deploy, "login_of", damaged)
        assert spark.run(image, **PULL).did_error()
        assert not any("systemctl" in script for script in spark.scripts()[:-1])
        assert "mend it" in spark.scripts()[-1]


@pytest.mark.parametrize("base", [True, False])
def test_the_base_is_pulled_before_the_build(base: bool) -> None:
    build = f"image-build@{'a' * 12}"
    jobs = failed(build, "It failed.\nrun again")
    jobs["artifacts.jobs"]["jobs"][JOB] = {"active": "inactive", "progress": None}

    def images(references: list[str]) -> Any:
        return docker("a" if base and references == [BASE] else "")["docker.image"]

    spark = fake_host(state={"docker.image": images, **jobs})
    assert spark.run(built_image, **BUILD).did_error()
    started = [script for script in spark.scripts() if "systemctl start" in script]
    assert started == [start(build if base else JOB).get_raw_value()]
    if base:
        assert "It failed.\nrun again" in spark.scripts()[-1]


@pytest.mark.parametrize("content", ["a", "b", ""])
def test_what_a_worker_has_counts_if_the_head_has_the_same(content: str) -> None:
    worker = fake_host(state=docker(content))
    with fake_host(state=docker("a")).current() as head:
        pass
    assert worker.predicts_change(copied_image, source=head, **COPY) is (content != "a")


def test_the_head_says_by_ssh_what_it_has_built(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[str] = []
    monkeypatch.setattr(deploy, "put_manifest", lambda *given: orders.append(given[-1]) or ())
    worker = fake_host(state=docker("") | failed("image-copy", "The cable is cut."))
    with fake_host(state=docker("a")).current() as head:
        pass
    assert worker.run(copied_image, source=head, **COPY).did_error()
    assert [json.loads(order)["ids"] for order in orders] == [["sha256:1"]]
    assert json.loads(orders[0])["source"] == ["192.168.100.11", IMAGE_PORT, ""]
    assert start("image-copy").get_raw_value() in worker.scripts()
    assert "The cable is cut." in worker.scripts()[-1]


@pytest.mark.parametrize(("content", "given"), [("", "192.168.100.12"), ("a", "")])
def test_a_worker_passes_on_what_the_next_one_lacks(
    content: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[str] = []
    monkeypatch.setattr(deploy, "put_manifest", lambda *given: orders.append(given[-1]) or ())
    worker = fake_host(state=docker("") | failed("image-copy", "The cable is cut."))
    with fake_host(state=docker("a")).current() as head:
        pass
    with fake_host(state=docker(content)).current() as peer:
        pass
    worker.run(copied_image, source=head, peer=peer, given="192.168.100.12", **COPY)
    assert json.loads(orders[0])["source"] == ["192.168.100.11", IMAGE_PORT, given]


@pytest.mark.parametrize(("own", "offered"), [("a", True), ("b", False), ("", False)])
def test_a_worker_offers_only_what_is_the_head_s(own: str, offered: bool) -> None:
    """An image that is still coming is passed on as it comes."""
    worker = fake_host(state=docker(own))
    with fake_host(state=docker("a")).current() as head:
        pass
    with fake_host(state=docker("")).current() as peer:
        pass
    arguments = {"root": "/r", "references": (NAME,), "peer": peer, "source": head}
    assert worker.predicts_change(offered_image, **arguments) is offered


@pytest.mark.parametrize(
    ("references", "content", "offered"),
    [((NAME,), "a", False), ((NAME,), "b", True), ((BASE,), "b", False), ((BASE,), "", True)],
)
def test_a_head_offers_what_the_worker_has_not(
    references: tuple[str, ...], content: str, offered: bool
) -> None:
    head = fake_host(state=docker("a"))
    with fake_host(state=docker(content)).current() as worker:
        pass
    arguments = {"root": "/r", "references": references, "peer": worker}
    assert not head.predicts_change(offered_image, **{**arguments, "peer": None})
    assert head.predicts_change(offered_image, **arguments) is offered
    assert head.run(offered_image, **arguments).did_succeed()
    starts = "systemctl start fabric-image.socket"
    assert [starts in script for script in head.scripts()] == [True] * offered


REQUIREMENTS = "huggingface-hub==2.4.0\n"
NO_ENVIRONMENT = {"artifacts.environment": {"requirements": None}}
ENVIRONMENT = {"path": "/r/hf", "requirements": "/r/bin/requirements.txt", "text": REQUIREMENTS}
# One at a time, also beside what a killed run has begun.
LOCK = "flock /run/lock/sparkwright-environment "


def test_an_environment_with_the_same_requirements_stays() -> None:
    known = {"requirements": sha256(REQUIREMENTS.encode()).hexdigest()}
    spark = fake_host(state={"artifacts.environment": known})
    assert not spark.run(virtual_environment, **ENVIRONMENT).did_change()
    assert spark.commands == []


def test_the_environment_is_stamped_last_and_comes_by_the_proxy() -> None:
    spark = fake_host(state=NO_ENVIRONMENT, root="/r", proxy="http://proxy.lan:3128")
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
    spark = fake_host(failing, state=NO_ENVIRONMENT, root="/r")
    assert spark.run(virtual_environment, **ENVIRONMENT).did_error()
    assert spark.scripts()[-1].startswith(f"{LOCK}/r/hf/bin/python -m pip install")
