"""pyinfra's view of an inventory: in a copy of the project, and in a site of `sparkwright init`."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparkwright.cli.new_site import inventory_text, site_files, write_site
from sparkwright.declared.fleet.fleet import Spark
from sparkwright.declared.fleet.settings import Settings
from sparkwright.run.options import OPTIONS
from tests import forked
from tests.programs import ended

PROJECT = Path(__file__).parents[2]

# @local and a deploy that runs nothing: no host is needed to see who would be touched.
DEPLOY = """\
from pathlib import Path
from pyinfra import host
with Path("touched").open("a") as file:
    file.write(f"{host.name} {host.data.spark} {host.data.replica} {host.data.rank}\\n")
"""
LOCAL = """\
sparks:
  spark-a: {local: true, hardware: lab}
  spark-b: {ssh_hostname: 192.0.2.1}
replicas:
  chat: {recipe: lab-tiny, sparks: [spark-a], trusts: [tool-parser-plugin]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a clone holds of what an inventory needs, and the inventory."""
    root = tmp_path / "clone"
    root.mkdir()
    for name in ("inventory.py", "config.py"):
        shutil.copy(PROJECT / name, root / name)
    shutil.copytree(PROJECT / "inventory/examples", root / "inventory/examples")
    for name in ("deploys", "sparkwright"):
        shutil.copytree(PROJECT / name, root / name)
    shutil.copytree(PROJECT / "files/recipes", root / "files/recipes")
    (root / "deploy.py").write_text(DEPLOY)
    (root / "inventory/sparks.yaml").write_text(LOCAL)
    (root / "group_data").mkdir()
    return root


def pyinfra(
    project: Path, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return forked.run(arguments, cwd=cwd or project)


def touched(project: Path) -> list[str]:
    path = project / "touched"
    return path.read_text().splitlines() if path.exists() else []


def refused(project: Path, *arguments: str, cwd: Path | None = None) -> str:
    """Run pyinfra, which must refuse; what it says after its own two lines."""
    run = pyinfra(project, "-y", *arguments, cwd=cwd)
    assert run.returncode == 1
    assert touched(project) == []
    assert "Connecting" not in run.stderr
    assert "Traceback" not in run.stderr
    return run.stderr.split("--> Loading inventory...")[1].strip()


def test_hosts_and_groups(project: Path) -> None:
    shutil.copy(project / "inventory/examples/fleet.yaml", project / "inventory/sparks.yaml")
    run = pyinfra(project, "--json", "inventory.py", "debug-inventory")
    assert run.returncode == 0
    hosts = {host["name"]: host for host in json.loads(run.stdout)}
    assert sorted(hosts) == ["spark-a", "spark-b", "spark-c", "spark-d"]
    data = hosts["spark-b"]["data"]
    assert data == {
        "ssh_hostname": "192.168.1.21",
        "ssh_user": "nvidia",
        "ssh_port": 2222,
        "spark": "spark-b",
        "hardware": "gb10",
        "fleet": "inventory/sparks.yaml",
        "replica": "tools",
        "recipe": "qwen3.6-35b-nvidia",
        "rank": 0,
        "ranks": ["spark-b"],
        "port": 8001,
        "api_key": None,
        "on_demand": False,
        "pinned": False,
    }
    assert set(hosts["spark-b"]["groups"]) == {"sparks", "tools", "inventory"}
    assert set(hosts["spark-d"]["groups"]) == {"sparks", "inventory"}
    assert hosts["spark-d"]["data"]["replica"] is None


def test_a_command_for_the_keys_runs_before_the_connection(project: Path) -> None:
    """It may ask a person, whom progress lines would disturb."""
    script = "echo ran >> ran; echo no store >&2; echo secret; exit 3"
    command = f"keys_command: [sh, -c, {script!r}]\n"
    (project / "inventory/sparks.yaml").write_text(LOCAL + command)
    shutil.copy(project / "deploy.py", project / "deploys/spark.py")
    said = refused(project, "inventory.py", "deploys/spark.py")
    assert "no store\n" in said
    assert "keys_command: found a command that fails (exit status 3); expected the keys" in said
    assert (project / "ran").read_text() == "ran\n"
    assert "secret" not in said.replace(script, "")
    # What needs no keys does not ask.
    words = ("-y", "inventory.py", "deploy.py", "--limit", "spark-a")
    assert pyinfra(project, *words).returncode == 0
    assert (project / "ran").read_text() == "ran\n"


def test_values_that_nothing_takes_end_a_run_before_any_connection(project: Path) -> None:
    # Nothing listens there: a run that got as far would say so.
    (project / "inventory/sparks.yaml").write_text(
        LOCAL.replace("{local: true}", "{ssh_hostname: 127.0.0.1, ssh_port: 9}")
    )
    given = ("docker=reboot", "fabric=1", "weights=remove", "firewall=onn", "watch=soon")
    given += ("report=/dev/null/x", "workloads=shrt")
    data = [word for each in given for word in ("--data", each)]
    said = refused(project, "inventory.py", "deploys/spark.py", "-y", *data)
    *told, workloads = said.splitlines()
    assert workloads.startswith("--data workloads: found 'shrt'; did you mean 'short'? Expected")
    assert told == [
        "--data firewall: found 'onn'; expected auto or on",
        "--data docker: found 'reboot'; expected restart, or no --data docker",
        "--data fabric: found 1; expected verify, or no --data fabric",
        "--data weights: found 'remove'; expected verify, or remove with "
        "pyinfra inventory.py deploys/remove.py",
        "--data watch: found 'soon'; expected seconds from 1 to 3600",
        "--data report: found '/dev/null/x'; expected the path of a file that can be written: "
        "/dev/null is no folder",
    ]


def test_all_that_is_wrong_with_group_data_ends_a_run_and_names_its_file(project: Path) -> None:
    own = 'drain_secods = 100\ndriver_minimum = "580"\nssh_user = "me"\ntls = "own"\n'
    (project / "group_data/sparks.py").write_text(own)
    (project / "group_data/chat.py").write_text('tls_key = "a.key"\nfabric_mtu = 9000.0\n')
    told = refused(project, "inventory.py", "deploy.py", "--data", "swappiness=ten").splitlines()
    assert [line.partition("; ")[0] for line in told] == [
        "group_data/chat.py: fabric_mtu: found 9000.0",
        "group_data/sparks.py: driver_minimum: found '580'",
        "group_data/sparks.py: drain_secods: found an unknown key",
        "--data swappiness: found 'ten'",
    ]


TWO = """\
sparks: {spark-a: {local: true, hardware: lab}}
replicas:
  chat: {recipe: lab-tiny, sparks: [spark-a], trusts: [tool-parser-plugin]}
  other: {recipe: %s, sparks: [spark-a], trusts: [tool-parser-plugin], port: 8001}
"""


def test_two_replicas_of_a_spark_have_its_settings(project: Path) -> None:
    """`--limit` takes one of them: pyinfra itself knows hosts only."""
    recipe = (project / "files/recipes/lab-tiny.yaml").read_text()
    own = recipe.replace("served_names: [tiny]", "served_names: [other]")
    (project / "files/recipes/lab-other.yaml").write_text(own)
    (project / "inventory/sparks.yaml").write_text(TWO % "lab-other")
    (project / "group_data/sparks.py").write_text("max_connections = 64\n")
    (project / "group_data/chat.py").write_text("max_body_mib = 8\n")
    (told,) = refused(project, "inventory.py", "deploy.py").splitlines()
    assert told == (
        "group_data/chat.py: max_body_mib: found it for one of the replicas chat and other, which "
        "share spark-a; expected the same value for both, as in group_data/sparks.py"
    )
    (project / "group_data/other.py").write_text("max_body_mib = 8\n")
    on_demand = TWO.replace("trusts", "on_demand: true, trusts", 1) % "lab-other"
    (project / "inventory/sparks.yaml").write_text(on_demand)
    told = refused(project, "inventory.py", "deploy.py", "--data", "hold_seconds=0")
    assert told == (
        "--data: hold_seconds: found 0, with which no request waits for chat, and so none starts "
        "it; expected 1 or more"
    )
    run = pyinfra(project, "--json", "inventory.py", "debug-inventory", "--limit", "other")
    (host,) = json.loads(run.stdout)
    assert (host["data"]["replica"], host["data"]["replicas"]) == ("chat", ["chat", "other"])
    assert host["data"]["chosen"] == ["other"]
    run = pyinfra(project, "--json", "inventory.py", "debug-inventory", "--limit", "spark-a")
    assert "chosen" not in json.loads(run.stdout)[0]["data"]


def test_two_replicas_of_a_spark_have_names_of_their_own(project: Path) -> None:
    recipes = project / "files/recipes"
    shutil.copy(recipes / "lab-tiny.yaml", recipes / "lab-twin.yaml")
    (project / "inventory/sparks.yaml").write_text(TWO % "lab-twin")
    told = " ".join(refused(project, "inventory.py", "deploy.py").split())
    assert "replicas.other.recipe: found lab-twin, which serves tiny, as replica chat does" in told


def test_options_are_those_that_deploys_read() -> None:
    """Every one is read, and every one that the documentation tells of is known."""
    code = "".join(path.read_text() for path in (PROJECT / "sparkwright").rglob("*.py"))
    code = code.replace("asked.", "options.").replace("json_target", "json")
    assert [name for name in OPTIONS if f"options.{name}" not in code] == []
    told = "".join(path.read_text() for path in (PROJECT / "docs").glob("*.md")) + code
    names = set(re.findall(r"--data ([a-z_]+)=", told))
    assert [name for name in names if name not in {*OPTIONS, *Settings.model_fields}] == []


PAIR = """\
sparks:
  spark-a: {ssh_hostname: 192.0.2.1, hardware: lab}
  spark-b: {local: true, hardware: lab}
  spark-c: {ssh_hostname: 192.0.2.3, hardware: lab}
replicas:
  chat: {recipe: lab-tiny, sparks: [spark-a, spark-b], trusts: [tool-parser-plugin]}
  alone: {recipe: lab-tiny, sparks: [spark-c], trusts: [tool-parser-plugin]}
"""


def test_a_group_goes_on_without_a_spark(project: Path) -> None:
    (project / "inventory/sparks.yaml").write_text(PAIR)
    words = ("inventory.py", "deploy.py", "--limit", "chat")
    run = pyinfra(project, "-y", *words, "--data", "without=spark-a")
    assert run.returncode == 0, run.stderr
    assert touched(project) == ["@local spark-b chat 0"]
    (project / "touched").unlink()
    told = refused(project, *words, "--data", "without=spark-a,spark-b")
    few = "found 0 of the 2 Sparks of chat left; expected 1 or 2 or 3 or 4, as its recipe says"
    assert few in told
    told = refused(project, *words, "--data", "without=spark-c")
    assert "--data without: found spark-c; expected a Spark of a group, as --exclude" in told
    # What is wrong with the whole group is so with three of it.
    more = "".join(f"  spark-{name}: {{hardware: lab}}\n" for name in "de")
    text = PAIR.replace("replicas:", f"{more}replicas:").replace("-b]", "-b, spark-d, spark-e]")
    (project / "inventory/sparks.yaml").write_text(text)
    (project / "group_data/chat.py").write_text("fabric_ring = True\n")
    told = refused(project, *words, "--data", "without=spark-d")
    names = "spark-a, spark-b, spark-d, spark-e"
    assert f"group_data/chat.py: fabric_ring: found True for 4 Sparks ({names})" in told


def test_a_clone_without_an_inventory_says_how_to_make_one(project: Path) -> None:
    (project / "inventory/sparks.yaml").unlink()
    message = refused(project, "inventory.py", "deploy.py")
    assert message.startswith("inventory/sparks.yaml: found no such file; expected your Sparks")
    command = message.split("in it: ")[1].split(",")[0]
    assert command == "cp inventory/examples/one.yaml inventory/sparks.yaml"
    subprocess.run(command.split(), cwd=project, check=True)
    data = ("--data", "watch=900", "--data", "ssh_port=22")
    assert pyinfra(project, "inventory.py", "debug-inventory", *data).returncode == 0


def test_all_that_is_wrong_with_an_inventory_or_a_recipe_ends_a_run(project: Path) -> None:
    recipe = project / "files/recipes/lab-tiny.yaml"
    recipe.write_text(recipe.read_text().replace("folder: tiny", "folder: ../tiny"))
    message = refused(project, "inventory.py", "deploy.py")
    assert 'checkpoints.model.folder: found "../tiny"; expected one folder name' in message
    (project / "inventory/sparks.yaml").write_text("sparks: {a: {ssh_hostnme: x, ssh_prt: 1}}\n")
    lines = refused(project, "inventory.py", "deploy.py").splitlines()
    assert [line.partition(": found")[0] for line in lines] == [
        f"inventory/sparks.yaml:1: sparks.a.{key}" for key in ("ssh_hostnme", "ssh_prt")
    ]


def test_from_another_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = (str(project / "inventory.py"), str(project / "deploy.py"))
    message = refused(project, *paths, cwd=project.parent)
    assert message == f"found no project here; expected its root: cd {project}"
    monkeypatch.setenv("PYTHONPATH", str(project))
    message = refused(project, *paths, cwd=project.parent)
    assert message == f"found the folder {project.parent}; expected the project root: cd {project}"
    chdir = ("--chdir", str(project), "inventory.py", "deploy.py", "--limit", "chat")
    assert pyinfra(project, "-y", *chdir, cwd=project.parent).returncode == 0
    assert touched(project) == ["@local spark-a chat 0"]


# Nothing listens there.
SILENT = Spark(ssh_hostname="127.0.0.1", ssh_user="me", ssh_port=9)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site whose only Spark is this machine."""
    inventory = inventory_text([Spark(local=True)], "mine", 1)
    write_site(tmp_path, site_files("x", inventory))
    own = tmp_path / "files/recipes/mine.yaml"
    own.write_text(
        "extends: qwen3.6-35b-nvidia\ndescription: Ours.\nproven: By us.\nsource: Ours.\n"
    )
    return tmp_path


def hosts(site: Path, **environment: str) -> list[dict[str, Any]]:
    own = os.environ | {"PYTHONPATH": str(PROJECT)} | environment
    done = forked.run(("--json", "inventory.py", "debug-inventory"), cwd=site, env=own)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_machines_get_json_also_where_no_spark_answers(site: Path) -> None:
    silent = inventory_text([SILENT], "mine", 1)
    (site / "inventory/sparks.yaml").write_text(silent)
    own = os.environ | {"PYTHONPATH": str(PROJECT), "HOME": str(site)}
    words = ("inventory.py", "deploys/status.py", "--data", "json=-")
    done = forked.run(words, cwd=site, env=own)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    found = json.loads(done.stdout)
    assert "spark-a" in json.dumps(found)


@pytest.mark.parametrize(("variable", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_it_asks_for_none(
    site: Path, variable: str, coloured: bool
) -> None:
    silent = inventory_text([SILENT], "mine", 1)
    (site / "inventory/sparks.yaml").write_text(silent)
    own = os.environ | {"PYTHONPATH": str(PROJECT), "HOME": str(site), "NO_COLOR": variable}
    line = f"{sys.executable} -m sparkwright status"
    words = ["script", "--quiet", "--return", "--command", f"stty cols 80; {line}", "/dev/null"]
    done = ended(words, cwd=site, env=own | {"TERM": "xterm"}, stdin=subprocess.DEVNULL, input=None)
    assert done.returncode == 1, done.stdout
    # A spinner clears its line, in any case.
    assert bool(re.search(r"\x1b\[[0-9;]+m", done.stdout)) == coloured
    table = [line for line in done.stdout.splitlines() if line.startswith(("spark ", "spark-a "))]
    assert table
    assert max(map(len, table)) <= 80


def test_another_inventory_has_settings_and_files_of_its_own(site: Path) -> None:
    staging = (site / "inventory/sparks.yaml").read_text().replace("chat:", "trial:")
    (site / "inventory/staging.yaml").write_text(staging)
    (site / "group_data/staging.py").write_text("keep_releases = 7\n")
    (host,) = hosts(site, SPARKWRIGHT_INVENTORY="staging")
    data = host["data"]
    assert (data["replica"], data["fleet"]) == ("trial", "inventory/staging.yaml")
    assert data["keep_releases"] == 7
    (production,) = hosts(site)
    # A recipe of the site is found by its name.
    assert production["data"]["recipe"] == "mine"
    assert "keep_releases" not in production["data"]
    assert {path.name for path in (site / "inventory").iterdir()} == {"sparks.yaml", "staging.yaml"}
