"""Drift: what is told of a difference, and that a look changes nothing."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import replace
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import HiddenValue, StringCommand, operation

from deploys.operations.differences import differs, is_looking, look
from deploys.operations.files import managed_files
from deploys.operations.messages import failing, notice
from deploys.operations.secrets import secret_file
from deploys.operations.services import sysctl
from deploys.plan.checkup import parse_checkup
from deploys.plan.command import Place, environment, serve_arguments
from deploys.plan.difference import Difference, as_json, exit_status, line
from deploys.plan.drift import (
    engine_differences,
    fabric_differences,
    file_difference,
    host_differences,
    secret_difference,
    unresolved,
    weights_difference,
)
from deploys.plan.engine import parse_engines
from deploys.plan.fabric import NETPLAN, fabric_plan, netplan_text
from deploys.plan.fabric_state import FabricState, Netdev, NetplanFile
from deploys.plan.files import Directory, FileState, ManagedFile, Symlink
from deploys.plan.lock import Lock
from deploys.plan.recipes import load_recipe
from deploys.plan.running import Container, parse_running, running_differences, running_script
from tests.unit.driven import fake_host, this_machine
from tests.unit.test_checkup import output as checkup_output
from tests.unit.test_release import release

PROJECT = Path(__file__).parents[2]
RELEASE = "lab-tiny-0a1b2c3d"
OTHER = "lab-tiny-99999999"
TEXT = ManagedFile("/etc/x", "a\n")
CONTENT = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"


def told(entry: ManagedFile | Directory | Symlink, state: FileState) -> str:
    return line("spark-a", file_difference(entry, state))


def test_a_file_that_differs() -> None:
    theirs = FileState("file", "root", "root", "644", "b" * 64)
    assert told(TEXT, theirs) == (
        f"spark-a: /etc/x: expected content sha256:{CONTENT[:12]}, found sha256:bbbbbbbbbbbb"
    )
    open_to_all = FileState("file", "spark", "root", "666", CONTENT)
    assert told(TEXT, open_to_all).endswith("expected root:root 644, found spark:root 666")
    assert told(TEXT, FileState("absent")).endswith("expected a file, found nothing")
    assert told(TEXT, FileState("directory")).endswith("found a directory")
    assert told(TEXT, FileState("unreadable", detail="Not a directory")).endswith(
        "found what cannot be read (Not a directory)"
    )
    assert told(Directory("/d", mode="700"), FileState("directory", "root", "root", "755")) == (
        "spark-a: /d: expected root:root 700, found root:root 755"
    )
    link = Symlink("/l", "releases/a")
    assert told(link, FileState("link", detail="releases/b")).endswith(
        "expected a link to releases/a, found a link to releases/b"
    )


def test_of_a_secret_not_even_a_hash_is_told() -> None:
    state = FileState("file", "root", "root", "600", CONTENT)
    assert secret_difference("/s", state) == Difference("/s", "the present content", "another")
    assert secret_difference("/s", replace(state, mode="644")).found == "root:root 644"
    assert secret_difference("/s", FileState("absent")).found == "nothing"


def test_weights_in_one_line() -> None:
    wrong = {"a.json": "is missing", "b.json": "has not been verified"}
    assert weights_difference("/w", wrong).found == "a.json is missing, and 1 more"
    assert weights_difference("/w", {"a.json": "is missing"}).found == "a.json is missing"


def engines(**properties: str) -> dict[str, Any]:
    """Return what is told of a Spark on which both releases are known."""
    values = {"current": RELEASE, "active": "active", "enabled": RELEASE, "other": "inactive"}
    values |= {"reload": "no", "switches": "", "first": RELEASE, "hold": "no", **properties}
    units = "\n\n".join(
        f"Id=vllm@{name}.service\nActiveState={active}\nNRestarts=0\n"
        f"NeedDaemonReload={values['reload']}\nJob=\nStatusText="
        for name, active in ((RELEASE, values["active"]), (OTHER, values["other"]))
    )
    parts = {
        "current": f"releases/{values['current']}" if values["current"] else "",
        "enabled": f"vllm@{values['enabled']}.service",
        "share": "",
        "switches": values["switches"],
        "door": f"first {values['first']}\nhold {values['hold']}",
        "units": units,
    }
    lines = [line for name, text in parts.items() for line in [f"@@{name}", *text.splitlines()]]
    state = parse_engines(lines)
    found = engine_differences(state, RELEASE, door=True)
    return {each.what: (each.expected, each.found) for each in found}


def test_engines_that_differ() -> None:
    unit, other = f"vllm@{RELEASE}.service", f"vllm@{OTHER}.service"
    assert engines() == {}
    assert engines(current=OTHER) == {"current release": (RELEASE, OTHER)}
    assert engines(current="") == {"current release": (RELEASE, "none")}
    assert engines(active="failed") == {unit: ("active", "failed")}
    assert engines(other="active") == {other: ("off", "active")}
    assert engines(enabled=OTHER) == {
        unit: ("enabled", "not enabled"),
        other: ("off", "inactive and boots"),
    }
    assert engines(reload="yes").keys() == {unit, other}
    assert engines(switches=f"switch@{OTHER}.service") == {
        "switch": ("none under way", f"one to {OTHER}")
    }
    assert engines(first=OTHER) == {"engine behind the door": (RELEASE, OTHER)}
    assert engines(hold="yes") == {"engine behind the door": (RELEASE, "none")}


def running(declared: bool = True, **parts: str) -> list[tuple[str, str, str]]:
    """Return what is told of a Spark that runs one engine, but for some sections."""
    served = release()
    ours = serve_arguments(served.recipe, Place(served.port, 0, 1, None))
    variables = [f"{key}={value}" for key, value in environment(served.recipe).items()]
    known = {"RELEASE": served.id, "ARGUMENTS": json.dumps(ours), "ENV": json.dumps(variables)}
    found = {"containers": CONTAINER, "image": "sha256:aa", "holds": "0x1", "held": "vim", **parts}
    text = "\n".join(f"@@{name}\n{said}" for name, said in found.items())
    for word, value in known.items():
        text = text.replace(word, value)
    state = parse_running(text.splitlines())
    return [tuple(each) for each in running_differences(state, served if declared else None)]


CONTAINER = "RELEASE\tsha256:aa\tARGUMENTS\tENV"


def test_what_runs_otherwise() -> None:
    name, container = release().id, f"container vllm-{release().id}"
    assert running() == []
    assert running(containers="") == []
    assert running(holds="[N/A]", image="") == []
    assert running(declared=False) == [("release that runs", "none", name)]
    assert running(containers=f"{OTHER}\tsha256:bb\t[]\tnull\n{CONTAINER}") == [
        ("release that runs", name, OTHER)
    ]
    assert running(containers=CONTAINER.replace("aa", "bb")) == [
        (f"{container}: image", "sha256:aa", "sha256:bb")
    ]
    by_hand = CONTAINER.replace("ARGUMENTS", '["serve", "--max-model-len", "77"]')
    assert running(containers=by_hand) == [(f"{container}: arguments", "its release's", "77")]
    assert running(containers=CONTAINER.replace("ARGUMENTS", "null")) == [
        (f"{container}: arguments", "its release's", "fewer")
    ]
    told = running(containers=CONTAINER.replace("ENV", '["PATH=/bin"]'))
    assert {each[1:] for each in told} == {("its release's value", "another")}
    assert running(holds="0x0000000000000088") == [
        ("GPU clock", "not held back", "held back by hardware slowdown"),
        ("GPU clock", "not held back", "held back by the power supply (power brake)"),
    ]
    assert running(held="vim\nnvidia-driver-580-open\nlinux-nvidia-hwe") == [
        ("package nvidia-driver-580-open", "updated with the system", "held back"),
        ("package linux-nvidia-hwe", "updated with the system", "held back"),
    ]
    with pytest.raises(ValueError, match="unreadable"):
        parse_running(["@@containers"])


def test_the_script_reads_what_docker_says(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    # Docker prints what stands between the parts of a template as it is: tabs.
    docker.write_text(
        """#!/bin/sh
case "$*" in
ps*) echo 4f6c ;;
image*) echo sha256:aa ;;
"inspect --format {{index .Config.Labels "*" 4f6c") printf 'a-1\tsha256:bb\t["serve"]\t["A=b"]\n' ;;
esac
"""
    )
    docker.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", running_script(["image@sha256:0"])],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = parse_running(done.stdout.splitlines())
    assert (found.image, found.holds) == ("sha256:aa", None)
    assert found.containers == {"a-1": Container("sha256:bb", ["serve"], ["A=b"])}


def test_a_gpu_that_is_held_back_under_load() -> None:
    def found(gpu: str) -> list[str]:
        lines = [gpu if line == "611, 14.21, 97" else line for line in checkup_output()]
        checkup = parse_checkup(lines, time.time())
        return [each.what for each in host_differences(checkup)]

    assert found("2405, 61.42, 96") == []
    assert found("612, 28.10, 97") == ["GPU clock under load"]


def test_a_fabric_that_differs() -> None:
    plan = fabric_plan("a", ("a", "b"), ("192.168.100.0/24", "192.168.101.0/24"), 9000, 80)
    port = ("enp1s0f0np0", "enP2p1s0f0np0")
    netdev = Netdev(up=True, carrier=True, speed=200000, mtu=9000, mac="")
    file = NetplanFile(NETPLAN, "root:600", netplan_text(plan, port))
    state = FabricState(
        netdevs=dict.fromkeys(port, netdev),
        addresses=tuple(
            (name, IPv4Interface(address))
            for name, address in zip(port, plan.interfaces, strict=True)
        ),
        routes=(),
        netplan=(file,),
        profiles=(),
        rdma={},
        tool=False,
        record="",
        guarded=True,
        reach=None,
    )

    def found(**changes: Any) -> list[tuple[str, str, str]]:
        differences = fabric_differences(plan, port, replace(state, **changes))
        return [tuple(each) for each in differences]

    wanted = (NETPLAN, "the fabric's addresses, root:root 600")
    assert found() == []
    assert found(netplan=()) == [(*wanted, "nothing")]
    other = replace(file, mode="root:644")
    assert found(netplan=(other,)) == [(*wanted, "another text, owner or mode")]
    slow = {port[0]: netdev, port[1]: replace(netdev, mtu=1500, carrier=False)}
    assert found(netdevs=slow) == [(port[1], "a link", "none"), (port[1], "MTU 9000", "1500")]
    assert found(netdevs={port[0]: netdev}) == [(port[1], "an interface", "none of that name")]
    assert found(addresses=state.addresses[:1]) == [(port[1], plan.interfaces[1], "no address")]


def test_what_only_a_run_may_ask_for() -> None:
    recipe = load_recipe("lab-tiny")
    problems = unresolved([recipe, recipe], Lock(), "sparks.lock.yaml")
    assert len(problems) == 2
    assert all(each.startswith("sparks.lock.yaml: found nothing for ") for each in problems)


def test_the_result_for_machines() -> None:
    found = {"spark-b": [Difference("ufw", "on", "off")], "spark-a": []}
    told = json.loads(as_json(found, {"spark-c": "no answer"}, 1795000000.4))
    assert told == {
        "time": 1795000000,
        "sparks": ["spark-a", "spark-b"],
        "differences": [{"spark": "spark-b", "what": "ufw", "expected": "on", "found": "off"}],
        "not_read": [{"spark": "spark-c", "reason": "no answer"}],
    }
    assert exit_status(found, []) == 2
    assert exit_status({"spark-a": []}, []) == 0
    # What is not known is never told as sound, nor as all that differs.
    assert exit_status(found, ["spark-c"]) == 1


@operation()
def silent(secret: str, trouble: str) -> Generator[StringCommand]:
    """An operation that tells nothing by itself."""
    notice("this is not for who looks")
    if trouble:
        yield failing(trouble)
        return
    yield StringCommand("touch /made", HiddenValue(secret), _stdin=secret)


@operation()
def telling(there: bool) -> Generator[StringCommand]:
    """An operation that tells all that differs, then acts."""
    if there:
        return
    differs("it", "here", "away")
    differs("its twin", "here", "away")
    yield StringCommand("touch /made")


def test_a_look_runs_no_command(caplog: pytest.LogCaptureFixture) -> None:
    spark = fake_host()
    with spark.current() as host:

        def steps() -> None:
            silent(name="Silent", secret="hf_secret", trouble="")
            silent(name="Troubled", secret="", trouble="error: one.\nerror: two.")
            telling(name="Telling", there=False)
            telling(name="At rest", there=True)
            differs("beyond", "nothing", "something")

        # As -y has it: no prediction.
        host.state.check_for_changes = False
        found = look(steps)
        assert not is_looking()
    assert [line("a", each) for each in found] == [
        "a: Silent: expected as it is, found a run would do: touch /made *MASKED*",
        "a: Troubled: expected nothing in its way, found error: one.",
        "a: Troubled: expected nothing in its way, found error: two.",
        "a: it: expected here, found away",
        "a: its twin: expected here, found away",
        "a: beyond: expected nothing, found something",
    ]
    assert spark.commands == []
    assert "not for who looks" not in caplog.text


def test_operations_tell_what_they_compare(tmp_path: Path) -> None:
    path, secret = tmp_path / "file", tmp_path / "secret"
    secret.write_text("hf_former\n")
    with this_machine(root=str(tmp_path)).current():

        def steps() -> None:
            managed_files(name="Files", entries=[ManagedFile(str(path), "text\n")])
            secret_file(name="Secret", path=str(secret), content=HiddenValue("hf_new\n"))
            sysctl(name="Kernel", path=str(path), values={"vm.swappiness": "-5"})

        found = [line("a", each) for each in look(steps)]
    files, token, swappiness = found
    # Two operations that differ by one file tell it once.
    assert files == f"a: {path}: expected a file, found nothing"
    assert token.startswith(f"a: {secret}: expected root:root 600, found ")
    assert swappiness.startswith("a: vm.swappiness: expected -5, found ")
    assert not path.exists()
    assert secret.read_text() == "hf_former\n"


INVENTORY = """
from pyinfra import state

# As inventory/sparks.py does it for looks.
state.should_raise_failed_hosts = lambda _: False
_data = {"_sudo": False, "root": ROOT, "fleet": FLEET, "hardware": "lab", "api_key": None}
_data |= {"replica": None, "recipe": RECIPE, "ranks": None, "rank": None, "port": None}
_gone = {"spark": "spark-b", "ssh_hostname": "127.0.0.1", "ssh_port": 1}
sparks = [("@local", {"spark": "spark-a", **_data}), ("spark-b", {**_data, **_gone})][:SPARKS]
"""


def run(
    folder: Path, *words: str, sparks: int = 1, recipe: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run drift on this machine as an idle Spark that was never set up; nobody can answer."""
    settings = {
        "ROOT": str(folder / "root"),
        "FLEET": str(folder / "sparks.yaml"),
        "RECIPE": recipe,
        "SPARKS": sparks,
    }
    head = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    (folder / "hosts.py").write_text(head + INVENTORY)
    (folder / "bin").mkdir(exist_ok=True)
    # What asks whether sudo may be used.
    (folder / "bin/sudo").write_text("#!/bin/sh\nexit 0\n")
    (folder / "bin/sudo").chmod(0o755)
    command = [Path(sys.executable).with_name("pyinfra"), folder / "hosts.py", "deploys/drift.py"]
    return subprocess.run(
        [*map(str, command), *words],
        cwd=PROJECT,
        env=os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("options", [[], ["-y"]])
def test_a_run_tells_and_changes_nothing(tmp_path: Path, options: list[str]) -> None:
    done = run(tmp_path, *options)
    assert done.returncode == 2, done.stderr
    lines = done.stdout.splitlines()
    assert f"spark-a: {tmp_path}/root: expected a directory, found nothing" in lines
    assert all(": expected " in line and ", found " in line for line in lines)
    assert "Press enter" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "hosts.py"]


def test_for_machines_and_with_one_that_gives_no_answer(tmp_path: Path) -> None:
    done = run(tmp_path, "--data", "json=-", sparks=2)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["sparks"], told["not_read"]) == (
        ["spark-a"],
        [{"spark": "spark-b", "reason": "no answer"}],
    )
    assert {"spark": "spark-a", "what": f"{tmp_path}/root/state", **ABSENT} in told["differences"]
    assert "spark-b: not looked at: no answer" in done.stderr


ABSENT = {"expected": "a directory", "found": "nothing"}


def test_a_fleet_that_was_never_deployed(tmp_path: Path) -> None:
    done = run(tmp_path, recipe="lab-tiny")
    assert done.returncode == 1
    assert f"{tmp_path}/sparks.lock.yaml: found nothing for " in done.stderr
    assert f"{tmp_path}/sparks.keys: found no such file; expected the API keys" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "hosts.py"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "json=5"], "--data json: found 5"),
        (["deploys/doctor.py"], "expected drift alone"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, words: list[str], said: str) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""
