"""Docker takes up its settings, and ends nobody's containers; how its state is read."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from host.state import docker as host_docker
from host.state import machine
from host.state.readers import UnknownError
from sparkwright.common.placed import DAEMON_JSON
from sparkwright.declared.fleet.settings import AptRepository
from sparkwright.machine.runtime.daemon_json import merged, proxies, recorded
from sparkwright.machine.runtime.deploy import docker
from sparkwright.machine.runtime.state import ContainerRuntime, GpuProof
from tests.unit.driven import Driven, fake_host, file_of, placed

OPTIONS = {"max-size": "50m", "max-file": "3"}
REPOSITORY = AptRepository(url="http://a/deb/$(ARCH)", key_url="http://a/key", fingerprint="F" * 40)
RUNTIME = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
READY = merged(json.dumps(RUNTIME), OPTIONS)


def spark(
    daemon_json: str = READY,
    *,
    toolkit: str | None = "1.20.1",
    runtimes: tuple[str, ...] = ("nvidia", "runc"),
    containers: tuple[str, ...] = (),
    changed: int = 50,
    active: str = "active",
    proxies: tuple[str, ...] = (),
) -> Driven:
    """A Spark whose Docker started at 100."""
    found = {
        "toolkit": toolkit,
        "repository": True,
        "runtimes": runtimes,
        "containers": containers,
        "daemon_json": daemon_json,
        "proxies": proxies,
    }
    files = {DAEMON_JSON: file_of(daemon_json, changed=changed)}
    units = {"docker.service": f"loaded {active} enabled 100"}
    return fake_host(
        state={"machine.runtime": found, "placed": placed(files=files, units=units)}, root="/r"
    )


def done(host: Driven, **arguments: Any) -> list[str]:
    """The commands that change something, in their order, by their first words."""
    result = host.run(docker, root="/r", repository=REPOSITORY, log_options=OPTIONS, **arguments)
    assert result.did_succeed()
    scripts = [script for script in host.scripts() if not re.match("! \\(test|.*sha1sum", script)]
    return [script for script in scripts if "systemctl" in script or "ctk" in script]


PROXY = {"http_proxy": "http://p:1", "https_proxy": "http://p:1", "no_proxy": "localhost"}
BEHIND = merged(READY, OPTIONS, proxies(PROXY))
RECORD = recorded(proxies(PROXY))
START, RESTART = "systemctl start docker.service", "systemctl restart docker.service"


@pytest.mark.parametrize(
    ("host", "proxy", "commands", "said"),
    [
        (spark(containers=("open-webui",)), None, [], ""),
        (spark(containers=("open-webui",), changed=200), None, [], "would end open-webui"),
        (spark(changed=200), None, [RESTART], ""),
        # A runtime by an option of dockerd: both, in file and command line, would keep it down.
        (spark(merged("{}", OPTIONS)), None, [], ""),
        (spark(active="inactive", runtimes=()), None, [START], ""),
        (spark(containers=("vllm-a",)), PROXY, [], "the proxy"),
        (spark(containers=("vllm-a",)), PROXY, [], "would end vllm-a"),
        (spark(BEHIND, proxies=(RECORD,)), PROXY, [], ""),
        (spark(BEHIND, proxies=(RECORD,)), None, [RESTART], ""),
        # It is not ours.
        (spark(BEHIND), None, [], ""),
    ],
)
def test_docker_is_restarted_where_that_is_needed_and_ends_nobody(
    host: Driven,
    proxy: dict[str, str] | None,
    commands: list[str],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert done(host, proxy=proxy or {}) == commands
    assert said in caplog.text
    if not commands and not said:
        assert not any(">>" in script for script in host.scripts())


def test_a_runtime_comes_by_a_reload_and_ends_nobody(caplog: pytest.LogCaptureFixture) -> None:
    found = done(
        spark(
            "",
            runtimes=("runc",),
            containers=(
                "open-webui",
                "sync",
            ),
        )
    )
    assert found == [
        "nvidia-ctk runtime configure --runtime=docker",
        "systemctl reload docker.service",
    ]
    assert "Docker is not restarted, which would end open-webui, sync" in caplog.text
    assert "--data docker=restart" in caplog.text


def test_the_owners_word_counts() -> None:
    host = spark("", runtimes=("runc",), containers=("open-webui",))
    assert done(host, restart=True)[-1] == "systemctl restart docker.service"


def test_a_toolkit_that_was_missing_takes_no_restart() -> None:
    host = spark(toolkit=None, runtimes=("runc",), containers=("open-webui",))
    found = done(host)
    assert "package=nvidia-container-toolkit" in "".join(host.scripts())
    assert found[-1] == "systemctl reload docker.service"


def test_a_runtime_that_only_the_last_start_knew_is_none() -> None:
    found = done(spark(merged("{}", OPTIONS), changed=200))
    assert found[0] == "nvidia-ctk runtime configure --runtime=docker"


def test_a_proxy_is_recorded_as_ours_before_it_is_set() -> None:
    host = spark()
    assert done(host, proxy=PROXY) == ["systemctl restart docker.service"]
    written = [script for script in host.scripts() if "docker-proxies" in script and ">>" in script]
    put = next(script for script in host.scripts() if script.startswith("mv -f"))
    assert [RECORD in script for script in written] == [True]
    assert host.scripts().index(written[0]) < host.scripts().index(put)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What Docker answers, by path; else nothing."""
    known: dict[str, Any] = {}

    def get(path: str) -> Any:
        if path not in known:
            raise UnknownError("Docker does not answer: Connection refused")
        return known[path]

    monkeypatch.setattr(host_docker, "get", get)
    return known


@pytest.mark.parametrize("path", ["", "/info", "/containers/json"])
def test_a_docker_that_runs_and_does_not_answer_is_no_docker_without_containers(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], path: str
) -> None:
    answers[path] = {}
    monkeypatch.setattr(machine, "run", lambda *_: SimpleNamespace(returncode=0))
    with pytest.raises(UnknownError, match="Docker runs, but does not answer: journalctl -u"):
        machine.runtime("/r", "http://x")


def read(root: Path) -> ContainerRuntime:
    return ContainerRuntime.model_validate_json(json.dumps(machine.runtime(str(root), "http://x")))


def test_a_docker_that_does_not_run_has_no_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    monkeypatch.setattr(machine, "run", lambda *_: SimpleNamespace(returncode=3))
    found = read(tmp_path)
    assert (found.runtimes, found.containers, found.proxies) == ((), (), ())


def test_what_a_docker_that_answers_has_and_what_runs_have_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    answers |= {
        "/info": {"Runtimes": {"nvidia": {}, "runc": {}}, "ServerVersion": "28.5.1"},
        "/containers/json": [{"Names": ["/x"]}, {"Names": ["/y", "/z/y"]}],
    }
    (tmp_path / "state").mkdir()
    (tmp_path / "state/docker-proxies").write_text("a\nb\n")
    (tmp_path / "state/gpu").write_text("580\n28\n")
    found = read(tmp_path)
    assert (found.runtimes, found.containers) == (("nvidia", "runc"), ("x", "y"))
    assert (found.proxies, found.repository) == (("a", "b"), False)
    sources = tmp_path / "nvidia.list"
    sources.write_text("deb http://x/deb /")
    monkeypatch.setattr(machine, "_sources", lambda: ["/nowhere", str(sources)])
    assert read(tmp_path).repository


def test_a_proof_holds_as_long_as_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    answers["/info"] = {"ServerVersion": "28.5.1"}
    monkeypatch.setattr(machine, "toolkit", lambda: "ctk 1.20")
    monkeypatch.setattr(machine.gpu, "read", lambda: {"gpu": {"driver": "580.1"}})

    def proof() -> GpuProof:
        return GpuProof.model_validate_json(json.dumps(machine.gpu_proof(str(tmp_path))))

    found = proof()
    assert found.now[:3] == ("580.1", "ctk 1.20", "28.5.1")
    assert not found.holds
    (tmp_path / "state").mkdir()
    (tmp_path / "state/gpu").write_text("".join(f"{each}\n" for each in found.now))
    assert proof().holds
    answers["/info"] = {"ServerVersion": "29.0.0"}
    assert not proof().holds
