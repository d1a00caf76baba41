"""Docker takes up its settings, and ends nobody's containers; how its state is read."""

import json
import re
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from sparkwright.declared.fleet.settings import AptRepository
from sparkwright.machine.runtime.daemon_json import merged, proxies, recorded
from sparkwright.machine.runtime.deploy import docker
from sparkwright.machine.runtime.facts import ContainerRuntime
from tests.makers.shell import program, shell
from tests.unit.driven import Driven, fake_host

OPTIONS = {"max-size": "50m", "max-file": "3"}
REPOSITORY = AptRepository(url="http://a/deb/$(ARCH)", key_url="http://a/key", fingerprint="F" * 40)
RUNTIME = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
READY = merged(json.dumps(RUNTIME), OPTIONS)


def spark(
    daemon_json: str = READY,
    *,
    toolkit: str = "1.20.1",
    runtimes: str = "nvidia runc ",
    containers: str = "",
    started: int = 100,
    changed: int = 50,
    active: str = "active",
    proxies: tuple[str, ...] = (),
) -> Driven:
    runtime = [f"toolkit {toolkit}", "repository x", f"runtimes {runtimes}"]
    runtime += [f"containers {containers}", "proxies", *proxies]
    runtime += ["daemon.json", *daemon_json.splitlines()]
    service = ["LoadState=loaded", f"ActiveState={active}", "UnitFileState=enabled"]
    service += [f"ActiveEnterTimestamp=@{started}", f"Changed={changed}"]
    answers: dict[Any, Any] = {"nvidia-ctk --version": runtime, "unit=docker.service": service}
    return fake_host(answers, root="/r")


def done(host: Driven, **arguments: Any) -> list[str]:
    """The commands that change something, in their order, by their first words."""
    result = host.run(docker, root="/r", repository=REPOSITORY, log_options=OPTIONS, **arguments)
    assert result.did_succeed()
    facts = re.compile(r"^\s*(silent\(\)|unit=|! \(test|.*(sha1sum|stat -c))")
    scripts = [script for script in host.scripts() if not facts.match(script)]
    return [script for script in scripts if "systemctl" in script or "ctk" in script]


PROXY = {"http_proxy": "http://p:1", "https_proxy": "http://p:1", "no_proxy": "localhost"}
BEHIND = merged(READY, OPTIONS, proxies(PROXY))
RECORD = recorded(proxies(PROXY))
START, RESTART = "systemctl start docker.service", "systemctl restart docker.service"


@pytest.mark.parametrize(
    ("host", "proxy", "commands", "said"),
    [
        (spark(containers="open-webui "), None, [], ""),
        (spark(containers="open-webui ", changed=200), None, [], "would end open-webui"),
        (spark(changed=200), None, [RESTART], ""),
        # A runtime by an option of dockerd: both, in file and command line, would keep it down.
        (spark(merged("{}", OPTIONS)), None, [], ""),
        (spark(active="inactive", runtimes=""), None, [START], ""),
        (spark(containers="vllm-a "), PROXY, [], "the proxy"),
        (spark(containers="vllm-a "), PROXY, [], "would end vllm-a"),
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
    found = done(spark("", runtimes="runc ", containers="open-webui sync "))
    assert found == [
        "nvidia-ctk runtime configure --runtime=docker",
        "systemctl reload docker.service",
    ]
    assert "Docker is not restarted, which would end open-webui, sync" in caplog.text
    assert "--data docker=restart" in caplog.text


def test_the_owners_word_counts() -> None:
    host = spark("", runtimes="runc ", containers="open-webui ")
    assert done(host, restart=True)[-1] == "systemctl restart docker.service"


def test_a_toolkit_that_was_missing_takes_no_restart() -> None:
    host = spark(toolkit="", runtimes="runc ", containers="open-webui ")
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


SCRIPT = ContainerRuntime().command("http://x", "/nonexistent")


def read(folder: Path, docker: str, systemctl: int) -> CompletedProcess[str]:
    program(folder / "docker", docker)
    program(folder / "systemctl", f"exit {systemctl}")
    return shell(SCRIPT, folder, check=False)


@pytest.mark.parametrize("docker", ["exit 1", '[ "$1" = info ] && echo 28.1', "[ $1 = ps ]"])
def test_a_docker_that_runs_and_does_not_answer_is_no_docker_without_containers(
    tmp_path: Path, docker: str
) -> None:
    found = read(tmp_path, docker, systemctl=0)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == "Docker runs, but does not answer: journalctl -u docker\n"


def test_a_docker_that_does_not_run_has_no_containers(tmp_path: Path) -> None:
    found = read(tmp_path, "exit 1", systemctl=3)
    state = ContainerRuntime().process(found.stdout.splitlines())
    assert (found.returncode, state.runtimes, state.containers) == (0, (), ())


def test_the_runtimes_and_containers_of_a_docker_that_answers(tmp_path: Path) -> None:
    info, running = r"printf '1\n2\n3\n4\nnvidia runc\n'", r"printf '1\tx\n2\ty\n'"
    answers = f"case $1 in info) {info} ;; *) {running} ;; esac"
    state = ContainerRuntime().process(read(tmp_path, answers, 0).stdout.splitlines())
    assert (state.runtimes, state.containers) == (("nvidia", "runc"), ("x", "y"))
