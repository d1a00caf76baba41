"""Docker's settings: merged, never replaced, and taken up without an end for containers."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from host.state import docker as host_docker
from host.state import machine
from host.state.readers import UnknownError
from host.upkeep.cleanup.system import without_ours
from sparkwright.common.placed import DAEMON_JSON
from sparkwright.declared.fleet.settings import Settings
from sparkwright.machine.runtime.deploy import docker
from sparkwright.machine.runtime.runtime import (
    GpuProof,
    merged,
    new_record,
    proxies,
    recorded,
)
from tests.unit.driven import Driven, fake_host, file_of, placed

OPTIONS = {"max-size": "50m", "max-file": "3"}
RUNTIME = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
READY = merged(json.dumps(RUNTIME), OPTIONS)


def spark(
    daemon_json: str = READY, *, changed: int = 50, active: str = "active", **found: Any
) -> Driven:
    """A Spark whose Docker started at 100."""
    sound = {"toolkit": "1.20.1", "repository": True, "runtimes": ("nvidia", "runc")}
    sound |= {"containers": (), "daemon_json": daemon_json, "proxies": ()}
    files = {DAEMON_JSON: file_of(daemon_json, changed=changed)}
    units = {"docker.service": f"loaded {active} enabled 100"}
    parts = {"machine.runtime": sound | found, "placed": placed(files=files, units=units)}
    return fake_host(state=parts, root="/r")


def done(host: Driven, **data: Any) -> list[str]:
    """The commands that change something, in their order, by their first words."""
    host.data |= data
    assert host.run(docker).did_succeed()
    scripts = [script for script in host.scripts() if not re.match("! \\(test|.*sha1sum", script)]
    return [script for script in scripts if "systemctl" in script or "ctk" in script]


PROXY = "http://p:1"
SET = proxies(Settings(proxy=PROXY).proxy_variables)
BEHIND, RECORD = merged(READY, OPTIONS, SET), recorded(SET)
REGISTER = "nvidia-ctk runtime configure --runtime=docker"
START, RESTART, RELOAD = (
    f"systemctl {verb} docker.service" for verb in ("start", "restart", "reload")
)
# Docker without NVIDIA's runtime, beside containers of others.
BARE: dict[str, Any] = {"runtimes": ("runc",), "containers": ("open-webui", "sync")}


@pytest.mark.parametrize(
    ("host", "data", "commands", "said"),
    [
        (spark(containers=("open-webui",)), {}, [], ""),
        (spark(containers=("open-webui",), changed=200), {}, [], "would end open-webui"),
        (spark(changed=200), {}, [RESTART], ""),
        # A runtime by an option of dockerd: both, in file and command line, would keep it down.
        (spark(merged("{}", OPTIONS)), {}, [], ""),
        # One that only the last start knew is none.
        (spark(merged("{}", OPTIONS), changed=200), {}, [REGISTER, RESTART], ""),
        (spark(active="inactive", runtimes=()), {}, [START], ""),
        # A runtime comes by a reload, which ends nobody.
        (spark("", **BARE), {}, [REGISTER, RELOAD], "--data docker=restart"),
        (spark("", **BARE), {"docker": "restart"}, [REGISTER, RESTART], ""),
        (spark(toolkit=None, **BARE), {}, [RELOAD], ""),
        (spark(containers=("vllm-a",)), {"proxy": PROXY}, [], "would end vllm-a"),
        (spark(BEHIND, proxies=(RECORD,)), {"proxy": PROXY}, [], ""),
        (spark(BEHIND, proxies=(RECORD,)), {}, [RESTART], ""),
        # It is not ours.
        (spark(BEHIND), {}, [], ""),
    ],
)
def test_docker_takes_up_its_settings_and_ends_nobody(
    host: Driven,
    data: dict[str, str],
    commands: list[str],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert done(host, **data) == commands
    assert said in caplog.text
    assert ("would end" in caplog.text) is bool(said)
    if not commands and not said:
        assert not any(">>" in script for script in host.scripts())


def test_a_proxy_is_recorded_as_ours_before_it_is_set() -> None:
    host = spark()
    assert done(host, proxy=PROXY) == [RESTART]
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], path: str
) -> None:
    answers[path] = {}
    monkeypatch.setattr(machine, "run", lambda *_: SimpleNamespace(returncode=0))
    with pytest.raises(UnknownError, match="Docker runs, but does not answer: journalctl -u"):
        machine.runtime("/r", "http://x")
    # One that does not run has none.
    monkeypatch.setattr(machine, "run", lambda *_: SimpleNamespace(returncode=3))
    found = machine.runtime(str(tmp_path), "http://x")
    assert [*found["runtimes"], *found["containers"], *found["proxies"]] == []


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


def test_what_is_there_stays():
    text = merged('{"insecure-registries": ["a:5000"], "log-opts": {"max-size": "1g"}}', OPTIONS)
    assert json.loads(text) == {
        "insecure-registries": ["a:5000"],
        "log-opts": {"max-size": "1g", "max-file": "3"},
    }
    # A log driver without files has no such options.
    journald = '{"log-driver": "journald"}'
    assert merged(journald, OPTIONS) == journald


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_what_docker_could_not_read_is_refused(text):
    with pytest.raises(ValueError, match=r"(?i)expect"):
        merged(text, OPTIONS)


OURS = {"log-opts": OPTIONS, "runtimes": {"nvidia": None}}
NVIDIA = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}


@pytest.mark.parametrize(
    "previous",
    [
        "",
        "{}\n",
        '{"runtimes": {"nvidia": {}}, "max-concurrent-downloads": 4}',
        '{"log-opts": {"max-size": "1g"}}',
        '{"log-opts": {}, "runtimes": {}}',
        '{"log-driver": "journald"}',
    ],
)
def test_what_deploys_add_to_daemon_json_goes_again(previous):
    text = merged(previous, OPTIONS)
    with_runtime = json.loads(text or "{}")
    with_runtime.setdefault("runtimes", {}).setdefault("nvidia", NVIDIA["nvidia"])
    assert without_ours(json.dumps(with_runtime), previous, OURS) in (previous, None)


PROXIES = proxies({"http_proxy": "http://p:1", "https_proxy": "http://p:1", "no_proxy": "a,b"})
OTHERS = {"http-proxy": "http://mine:2"}


def test_the_proxy_comes_changes_and_goes():
    first = merged("", OPTIONS, PROXIES)
    assert json.loads(first)["proxies"] == {
        "http-proxy": "http://p:1",
        "https-proxy": "http://p:1",
        "no-proxy": "a,b",
    }
    line = new_record("", first, ())
    assert line == recorded(PROXIES)
    assert merged(first, OPTIONS, PROXIES, [line]) == first
    second = merged(first, OPTIONS, OTHERS, [line])
    assert json.loads(second)["proxies"] == OTHERS
    lines = [line, new_record(first, second, [line])]
    # A run that was cut off before it wrote the file has written the record.
    for text in (first, second):
        assert json.loads(merged(text, OPTIONS, {}, lines)) == {"log-opts": OPTIONS}


def test_proxies_of_the_owner_stay():
    own = json.dumps({"log-opts": OPTIONS, "proxies": OTHERS})
    line = recorded(PROXIES)
    for wanted, lines in ((PROXIES, [line]), ({}, [line]), (OTHERS, ()), ({}, ())):
        assert merged(own, OPTIONS, wanted, lines) == own
    assert new_record(own, own, ()) is None
    assert without_ours(own, "", {"proxies": PROXIES}) is None
