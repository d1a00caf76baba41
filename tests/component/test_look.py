"""Drift as it runs: operations tell what differs, and a look changes nothing."""

import json
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from pyinfra.api import HiddenValue, StringCommand, operation

from sparkwright.common.files import ManagedFile
from sparkwright.common.operations import differs, failing, is_looking, look, notice
from sparkwright.machine.host.operations.files import managed_files, secret_file
from sparkwright.machine.host.operations.services import sysctl
from tests import forked
from tests.programs import script
from tests.unit.driven import fake_host, this_machine

PROJECT = Path(__file__).parents[2]


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
    assert [f"a: {each}" for each in found] == [
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
    path, secret = tmp_path / "current", tmp_path / "secret"
    secret.write_text("hf_previous\n")
    with this_machine(root=str(tmp_path)).current():

        def steps() -> None:
            managed_files(name="Files", entries=[ManagedFile(str(path), "text\n")])
            secret_file(name="Secret", path=str(secret), content=HiddenValue("hf_new\n"))
            sysctl(name="Kernel", path=str(path), values={"vm.swappiness": "-5"})

        found = [f"a: {each}" for each in look(steps)]
    files, token, swappiness = found
    # Two operations that differ by one file tell it once.
    assert files == f"a: {path}: expected a file, found nothing"
    assert token.startswith(f"a: {secret}: expected root:root 600, found ")
    assert swappiness.startswith("a: vm.swappiness: expected -5, found ")
    assert not path.exists()
    assert secret.read_text() == "hf_previous\n"


INVENTORY = """
from pyinfra import state

# As sparkwright/run/inventory/groups.py does it for looks.
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
    (folder / "sparks.yaml").write_text("sparks: {spark-a: {}, spark-b: {}}\nreplicas: {}\n")
    (folder / "bin").mkdir(exist_ok=True)
    # What asks whether sudo may be used.
    script((folder / "bin/sudo"), "#!/bin/sh\nexit 0\n")
    return forked.run(
        [folder / "hosts.py", "deploys/drift.py", *words],
        cwd=PROJECT,
        env=os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
    )


def test_for_machines_and_with_one_that_gives_no_answer(tmp_path: Path) -> None:
    done = run(tmp_path, "-y", "--data", "json=-", sparks=2)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["sparks"], told["not_read"]) == (
        ["spark-a"],
        [{"spark": "spark-b", "reason": "no answer: is it on, and does ssh get to it?"}],
    )
    assert {"spark": "spark-a", "what": f"{tmp_path}/root/state", **ABSENT} in told["differences"]
    assert "spark-b: not looked at: no answer: is it on, and" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "hosts.py", "sparks.yaml"]


def test_beside_another_deploy_it_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "deploys/doctor.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert "expected drift alone" in done.stderr


ABSENT = {"expected": "a directory", "found": "nothing"}


def test_a_fleet_that_was_never_deployed(tmp_path: Path) -> None:
    (tmp_path / "sparks.yaml").write_text("sparks: {spark-a: {}}\n")
    done = run(tmp_path, recipe="lab-tiny")
    assert done.returncode == 1
    assert f"{tmp_path}/sparks.lock.yaml: " in done.stderr
    assert "is not in the lock yet; pyinfra inventory.py deploys/spark.py records it" in done.stderr
    assert f"{tmp_path}/sparks.keys: found no such file; expected the API keys" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "hosts.py", "sparks.yaml"]
