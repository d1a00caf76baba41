"""pyinfra's view of the inventory, by the real pyinfra program in a copy of the project."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploys.plan.errors import PlanError
from inventory.sparks import OPTIONS, load

PROJECT = Path(__file__).parents[2]
PYINFRA = Path(sys.executable).with_name("pyinfra")

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
  chat: {recipe: lab-tiny, sparks: [spark-a]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a clone holds of what an inventory needs."""
    root = tmp_path / "clone"
    for name in ("inventory/__init__.py", "inventory/sparks.py", "inventory.py", "config.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, root / name)
    shutil.copytree(PROJECT / "inventory/examples", root / "inventory/examples")
    shutil.copytree(PROJECT / "deploys/plan", root / "deploys/plan")
    shutil.copytree(PROJECT / "files/recipes", root / "files/recipes")
    (root / "deploys/__init__.py").touch()
    (root / "deploy.py").write_text(DEPLOY)
    return root


def pyinfra(
    project: Path, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYINFRA, *arguments],
        cwd=cwd or project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


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
        "recipe": "qwen3.6-35b-nvfp4-dflash",
        "rank": 0,
        "ranks": ["spark-b"],
        "port": 8001,
        "api_key": None,
    }
    assert set(hosts["spark-b"]["groups"]) == {"sparks", "tools", "inventory"}
    assert set(hosts["spark-d"]["groups"]) == {"sparks", "inventory"}
    assert hosts["spark-d"]["data"]["replica"] is None


@pytest.mark.parametrize("limit", ["chat", "spark-a", "@local", "@loc*"])
def test_a_limit_takes_sparks_and_replicas(project: Path, limit: str) -> None:
    (project / "inventory/sparks.yaml").write_text(LOCAL)
    run = pyinfra(project, "-y", "inventory.py", "deploy.py", "--limit", limit)
    assert run.returncode == 0
    assert touched(project) == ["@local spark-a chat 0"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (
            ["chta"],
            "--limit: found chta, which matches nothing; expected one of @local, chat, spark-a",
        ),
        (["chat", "spark-c"], "--limit: found spark-c, which matches nothing"),
        (["x*"], "--limit: found x*, which matches nothing"),
        (["all"], "--limit: found all, which matches nothing"),
    ],
)
def test_a_limit_that_matches_nothing(project: Path, limits: list[str], expected: str) -> None:
    (project / "inventory/sparks.yaml").write_text(LOCAL)
    arguments = [word for limit in limits for word in ("--limit", limit)]
    message = refused(project, "inventory.py", "deploy.py", *arguments)
    assert message.startswith(expected)
    assert "spark-b, sparks" in message


def test_data_that_nothing_reads(project: Path) -> None:
    (project / "inventory/sparks.yaml").write_text(LOCAL)
    shutil.copytree(PROJECT / "group_data", project / "group_data")
    data = ("--data", "soack=900", "--data", "swappiness=10")
    message = refused(project, "inventory.py", "deploy.py", *data)
    assert message.startswith("--data soack: found a name that nothing reads; expected one of ")
    assert message.endswith("did you mean 'soak'?")
    right = ("--data", "soak=900", "--data", "ssh_port=22")
    assert pyinfra(project, "inventory.py", "debug-inventory", *right).returncode == 0


def test_options_are_those_that_deploys_read() -> None:
    """Every one is read, and every one that the documentation tells of is known."""
    code = "".join(path.read_text() for path in (PROJECT / "deploys").rglob("*.py"))
    assert [name for name in OPTIONS if f'"{name}"' not in code] == []
    told = "".join(path.read_text() for path in (PROJECT / "docs").glob("*.md")) + code
    settings = (PROJECT / "group_data/all.py").read_text()
    names = set(re.findall(r"--data ([a-z_]+)=", told))
    assert [name for name in names if name not in OPTIONS and f"\n{name} =" not in settings] == []


def test_a_clone_without_an_inventory_says_how_to_make_one(project: Path) -> None:
    message = refused(project, "inventory.py", "deploy.py")
    assert message.startswith("inventory/sparks.yaml: found no such file; expected your Sparks")
    command = message.split("in it: ")[1].split(",")[0]
    assert command == "cp inventory/examples/one.yaml inventory/sparks.yaml"
    subprocess.run(command.split(), cwd=project, check=True)
    assert pyinfra(project, "inventory.py", "debug-inventory").returncode == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "sparks: found nothing; expected at least one Spark"),
        (
            "sparks: {a: {}}\nreplicas: {x: {recipe: lab-tny, sparks: [a, a]}}\n",
            "replicas.x.recipe: found lab-tny; expected one of lab-built,",
        ),
        (
            "sparks: {a: {}}\nreplicas: {x: {recipe: lab-tiny, sparks: [a]}}\n",
            "replicas.x.sparks: found a, of hardware class gb10; expected lab",
        ),
        ("sparks: {a: {ssh_hostnme: x}}\n", "sparks.a.ssh_hostnme: found an unknown key"),
    ],
)
def test_an_inventory_that_cannot_be(project: Path, text: str, expected: str) -> None:
    (project / "inventory/sparks.yaml").write_text(text)
    message = refused(project, "inventory.py", "deploy.py")
    assert message.startswith(f"inventory/sparks.yaml: {expected}")
    assert all(line.startswith("inventory/sparks.yaml: ") for line in message.splitlines())


def test_a_recipe_that_cannot_be(project: Path) -> None:
    (project / "inventory/sparks.yaml").write_text(LOCAL)
    recipe = project / "files/recipes/lab-tiny.yaml"
    recipe.write_text(recipe.read_text().replace("folder: tiny", "folder: ../tiny"))
    message = refused(project, "inventory.py", "deploy.py")
    assert 'checkpoints.model.folder: found "../tiny"; expected one folder name' in message


def test_from_another_folder(project: Path) -> None:
    (project / "inventory/sparks.yaml").write_text(LOCAL)
    inventory, deploy = str(project / "inventory.py"), str(project / "deploy.py")
    for cwd in (project.parent, project / "inventory"):
        message = refused(project, inventory, deploy, cwd=cwd)
        assert message == f"found no project here; expected its root: cd {project}"
    chdir = ("--chdir", str(project), "inventory.py", "deploy.py", "--limit", "chat")
    assert pyinfra(project, "-y", *chdir, cwd=project.parent).returncode == 0
    assert touched(project) == ["@local spark-a chat 0"]


def test_from_another_folder_with_the_project_on_the_path(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "inventory/sparks.yaml").write_text(LOCAL)
    monkeypatch.setenv("PYTHONPATH", str(project))
    paths = (str(project / "inventory.py"), str(project / "deploy.py"))
    message = refused(project, *paths, cwd=project.parent)
    assert message == f"found the folder {project.parent}; expected the project root: cd {project}"


def test_the_same_loader_serves_other_files(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(LOCAL)
    groups = load(path)
    assert set(groups) == {"sparks", "chat", "spark-a"}
    assert [name for name, _ in groups["sparks"]] == ["@local", "spark-b"]
    assert groups["chat"][0][1]["fleet"] == str(path)
    with pytest.raises(PlanError, match="found no such file; expected your Sparks"):
        load(tmp_path / "none.yaml")


def test_a_mistyped_inventory_file(project: Path) -> None:
    """pyinfra alone would take the name for a host's, do nothing, and exit with 0."""
    run = pyinfra(project, "-y", "inventry.py", "deploy.py")
    assert run.returncode == 1
    assert "found no file inventry.py" in run.stderr
    assert touched(project) == []
