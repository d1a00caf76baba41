"""Looks as they run: drift, where operations tell what differs, and the doctor's report."""

import json
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from pyinfra.api import HiddenValue, StringCommand, operation

from sparkwright.common.operations import differs, failing, is_looking, look, notice
from tests import forked
from tests.programs import script
from tests.unit.driven import fake_host

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


INVENTORY = """
from pyinfra import state

# As sparkwright/run/inventory/groups.py does it for looks.
state.should_raise_failed_hosts = lambda _: False
_data = {"_sudo": False, "root": ROOT, "fleet": FLEET, "hardware": "lab", "api_key": None}
_data |= {"replica": None, "recipe": None, "ranks": None, "rank": None, "port": None, **SERVES}
_gone = {"spark": "spark-b", "ssh_hostname": "127.0.0.1", "ssh_port": 1}
sparks = [("@local", {"spark": "spark-a", **_data}), ("spark-b", {**_data, **_gone})][:SPARKS]
"""


def run(
    folder: Path,
    *words: str,
    deploy: str = "drift",
    sparks: int = 1,
    fleet: str = "sparks: {spark-a: {}, spark-b: {}}\nreplicas: {}\n",
    **serves: object,
) -> "subprocess.CompletedProcess[str]":
    """Run a look at this machine as a Spark that was never set up; nobody can answer."""
    settings = {
        "ROOT": str(folder / "root"),
        "FLEET": str(folder / "sparks.yaml"),
        "SERVES": serves,
        "SPARKS": sparks,
    }
    head = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    (folder / "hosts.py").write_text(head + INVENTORY)
    (folder / "sparks.yaml").write_text(fleet)
    (folder / "bin").mkdir(exist_ok=True)
    # What asks whether sudo may be used.
    script((folder / "bin/sudo"), "#!/bin/sh\nexit 0\n")
    return forked.run(
        [folder / "hosts.py", f"deploys/{deploy}.py", *words],
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


FLEET = """\
sparks:
  rack-a: {local: true, hardware: lab}
  rack-b: {ssh_hostname: 192.0.2.77, hardware: lab}
replicas:
  lawyers: {recipe: lab-tiny, sparks: [rack-a], trusts: [tool-parser-plugin]}
"""
SERVES = {"spark": "rack-a", "replica": "lawyers", "recipe": "lab-tiny", "ranks": ("rack-a",)}


def doctor(folder: Path, *words: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
    done = run(folder, *words, deploy="doctor", fleet=FLEET, rank=0, port=8000, **SERVES)
    assert done.returncode == status, done.stderr
    return done


def test_a_report_goes_to_a_file_that_others_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "new/report.md"
    doctor(tmp_path, "--dry", "--data", f"report={path}")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bin", "hosts.py", "sparks.yaml"]
    done = doctor(tmp_path, "-y", "--data", f"report={path}")
    assert f"the report is in {path}" in done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert "| Sparks | `1 of 2 in the inventory` |\n" in text
    assert "\n## spark1\n" in text
    assert "| recipe | `lab-tiny` |\n" in text
    assert f"| kernel | `{os.uname().release}` |\n" in text
    for private in ("rack-", "lawyers", "192.0.2", os.uname().nodename, str(tmp_path)):
        assert private not in text


def test_a_spark_that_cannot_be_read_is_in_the_report(tmp_path: Path) -> None:
    downs = tmp_path / "root/state/hard-downs"
    downs.parent.mkdir(parents=True)
    downs.write_text("not JSON")
    path = tmp_path / "report.md"
    done = doctor(tmp_path, "-y", "--data", f"report={path}", status=1)
    assert "checkup: JSONDecodeError" in done.stderr
    assert path.read_text().endswith("It could not be read; the run said why.\n")


def test_an_update_that_would_come_by_itself_is_named_by_both(tmp_path: Path) -> None:
    name, security = "linux-nvidia-hwe-24.04", "Ubuntu:${distro_codename}-security"
    listed = f"{name}/noble-security 7.0.0-1019.19 arm64 [upgradable from: 6.17.0-1032.32]"
    options = ("APT::Periodic::Unattended-Upgrade 1", "Unattended-Upgrade::Allowed-Origins:: ")
    said = {
        "dpkg-query": f"ii  {name}",
        "apt": listed,
        "apt-config": f"{options[0]}\n{options[1]}{security}",
    }
    (tmp_path / "bin").mkdir()
    for program, text in said.items():
        script(tmp_path / "bin" / program, f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    found = json.loads(run(tmp_path, "-y", "--data", "json=-").stdout)["differences"]
    (kernel,) = [each for each in found if each["what"] == f"kernel ({name})"]
    assert kernel["expected"] == "6.17.0-1032.32"
    assert kernel["found"].startswith("7.0.0-1019.19 (by itself). Known: The kernel re")
    # Lines for people stand beside a report on standard output.
    done = doctor(tmp_path, "-y", "--data", "report=-")
    assert f"kernel ({name}): expected 6.17.0-1032.32, found 7.0" in done.stderr
    assert done.stdout.startswith("# What the doctor found\n")
    assert done.stdout.count("## spark1") == 1


def test_a_spark_of_a_group_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    """It may only boot: to serve without it is offered once its group has missed it for long."""
    fleet = FLEET.replace("[rack-a]", "[rack-a, spark-b]").replace("rack-b", "spark-b")
    given = SERVES | {"ranks": ("spark-a", "spark-b"), "spark": "spark-a"}
    fleet = fleet.replace("rack-a", "spark-a")
    done = run(tmp_path, "-y", deploy="doctor", sparks=2, fleet=fleet, rank=0, port=8000, **given)
    assert done.returncode == 1
    assert "cause: A Spark of the group cannot be reached, and the others wait" in done.stderr
    assert "seen: spark-b: no answer: is it on, and does ssh get to it?" in done.stderr
    assert "its engine starts by itself, and the others go on." in done.stderr
    assert "without=" not in done.stderr
    assert "Traceback" not in done.stderr
