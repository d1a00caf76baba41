"""`sparkwright init`: what it asks and offers, and what it says of Sparks that it cannot use."""

import errno
import json
import os
import re
import shlex
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from sparkwright import __version__
from sparkwright.cli import init as module
from sparkwright.cli import look as look_module
from sparkwright.cli import new_site as site
from sparkwright.cli.init import offers
from sparkwright.cli.main import cli
from sparkwright.cli.new_site import inventory_text, parse_spark, site_files, write_site
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import HARDWARE
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet, Spark
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.machine.host.survey import Survey
from tests.makers.preflight import FIT as SPARK

# What looks at an address show, one after the other; the last one stays.
Looks = dict[str, list[Survey | str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UV", raising=False)
    return tmp_path


def run(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["init", *words], input=typed)


def fleet(folder: Path) -> Fleet:
    return load_fleet(folder / "my-sparks/inventory/sparks.yaml")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Looks:
    looks: Looks = {}

    def look(spark: Spark) -> Survey | str:
        own = looks.get(spark.ssh_hostname or "", [SPARK])
        return own.pop(0) if len(own) > 1 else own[0]

    monkeypatch.setattr(look_module, "look", look)
    return looks


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_terminal", lambda: True)


def test_what_fits_begins_with_what_is_recommended() -> None:
    gb10 = HARDWARE["gb10"]
    one, two = offers(gb10, [SPARK]), offers(gb10, [SPARK, SPARK])
    assert (next(iter(one)), next(iter(two))) == ("qwen3.6-35b-nvidia", "qwen3.5-122b-nvidia")
    assert one["qwen3.6-35b-nvidia"] > 20 * 10**9
    # None is offered without a plan for its memory.
    assert all(
        size > 10**8 and load_recipe(name) for each in (one, two) for name, size in each.items()
    )
    names = one.keys()
    # It is for two, or for a graphics card.
    assert "qwen3.5-35b-nvfp4-rtx-5090" not in names
    assert names <= set(recipe_names())


def test_without_a_question(folder: Path, seen: Looks) -> None:
    result = run("--spark", "me@10.0.0.5")
    assert result.exit_code == 0, result.output
    assert "me@10.0.0.5: ok: NVIDIA GB10, 12" in result.output
    assert " 0 GB" not in result.output
    assert "(others: sparkwright recipes list)" in result.output
    assert "serves qwen3.6-35b-nvidia as qwen3.6-35b" in result.output
    assert fleet(folder).replicas["chat"].recipe == "qwen3.6-35b-nvidia"


def test_with_questions(folder: Path, seen: Looks, terminal: None) -> None:
    typed = "10.0.0.5\nme\n10.0.0.6\n\n\ny\n\n"
    result = run("my-sparks", typed=typed)
    assert result.exit_code == 0, result.output
    assert fleet(folder).replicas["chat"].sparks == ["spark-a", "spark-b"]
    assert fleet(folder).replicas["chat"].recipe == "qwen3.5-122b-nvidia"
    assert [spark.ssh_user for spark in fleet(folder).sparks.values()] == ["me", "me"]


def test_what_does_not_answer_is_tried_again(folder: Path, seen: Looks, terminal: None) -> None:
    seen["10.0.0.5"] = ["it rejects this SSH key: ssh-copy-id me@10.0.0.5", SPARK]
    result = run("my-sparks", typed="me@10.0.0.5\n\ny\n\n")
    assert result.exit_code == 0, result.output
    assert "ssh-copy-id me@10.0.0.5" in result.output
    assert fleet(folder).sparks["spark-a"].ssh_hostname == "10.0.0.5"


def test_nothing_is_written_for_what_cannot_be_used(folder: Path, seen: Looks) -> None:
    seen["10.0.0.5"] = ["no answer: no power or no network"]
    result = run("--spark", "me@10.0.0.5")
    assert result.exit_code == 1
    assert "no answer: no power or no network" in result.output
    assert "--no-connect" in str(result.exception) + result.output
    assert [*folder.iterdir()] == []
    assert run("--spark", "me@10.0.0.5", "--no-connect").exit_code == 0


SPARKS = [word for number in range(8) for word in ("--spark", f"me@10.0.0.{number + 1}")]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_group_serves_what_is_for_as_many(folder: Path, seen: Looks, count: int) -> None:
    result = run(*SPARKS[: 2 * count], "--pair", "--no-connect")
    assert result.exit_code == 0, result.output
    (group,) = fleet(folder).replicas.values()
    assert len(group.sparks) == count
    assert count in load_recipe(group.recipe).sparks


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--spark", "a", "--spark", "b"], "expected --pair"),
        (["--spark", "a", "--pair"], "found 1 Sparks; expected 2, 3, 4 or 8"),
        (["--spark", "a", "--recipe", "qwen3.6-35b-nvida"], "did you mean 'qwen3.6-35b-nvidia'"),
        (["--spark", "a", "--key", "/nosuch"], "--key: found no file /nosuch; expected a private"),
        (["--spark", "ssh://a"], "expected the address of a Spark"),
        (["--spark", "a@c", "--spark", "b@c:22"], "--spark: found c twice; expected each Spark"),
        ([], "found no --spark; expected one for each"),
        (
            ["--spark", "a", "--recipe", "qwen3.8-flash-next"],
            "--spark: found 1; expected 4 (qwen",
        ),
        (
            [*SPARKS[:16], "--pair", "--no-connect"],
            "--spark: found 8; expected 3 or 4 (q",
        ),
    ],
)
def test_what_is_refused(folder: Path, seen: Looks, words: list[str], sentence: str) -> None:
    result = run(*words)
    assert result.exit_code == 1
    assert sentence in str(result.exception)
    assert [*folder.iterdir()] == []


@pytest.mark.parametrize(
    ("name", "project"),
    [
        ("my sparks", "my-sparks-site"),
        ("mein Spärk", "mein-spark-site"),
        ("-x_1.", "x-1-site"),
        ("火", "site"),
        ("it's $HOME", "it-s-home-site"),
    ],
)
def test_a_site_of_any_name_is_a_project_of_uv(folder: Path, name: str, project: str) -> None:
    result = run("--spark", "a", "--no-connect", "--", name)
    assert result.exit_code == 0, result.output
    told = tomllib.loads((folder / name / "pyproject.toml").read_text())
    assert told["project"]["name"] == project
    # The name of a package: PyPA's specification of names.
    assert re.fullmatch(r"(?i)[a-z0-9]|[a-z0-9][a-z0-9._-]*[a-z0-9]", project)
    (cd,) = (line for line in result.output.splitlines() if line.startswith("  cd "))
    assert shlex.split(cd) == ["cd", name]


CLONE = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("direct", "requirement"),
    [
        # An index.
        (None, f">={__version__}"),
        ({"url": "file:///c/a%20b", "dir_info": {"editable": True}}, " @ file:///c/a%20b"),
        (
            {"url": "https://e.org/s.git", "vcs_info": {"vcs": "git", "commit_id": "1a2b"}},
            " @ git+https://e.org/s.git",
        ),
        (
            {"url": "ssh://e.org/s", "vcs_info": {"vcs": "git", "requested_revision": "v1"}},
            " @ git+ssh://e.org/s@v1",
        ),
        ({"url": "https://e.org/s.whl", "archive_info": {}}, " @ https://e.org/s.whl"),
        # A clone that was not installed.
        ("absent", f" @ {CLONE.as_uri()}"),
    ],
)
def test_a_site_takes_sparkwright_from_where_init_came(
    folder: Path, monkeypatch: pytest.MonkeyPatch, direct: object, requirement: str
) -> None:
    def distribution(name: str) -> SimpleNamespace:
        if direct == "absent":
            raise PackageNotFoundError(name)
        text = json.dumps(direct) if direct else None
        return SimpleNamespace(read_text={"direct_url.json": text}.get)

    monkeypatch.setattr(site, "distribution", distribution)
    assert run("--spark", "a", "--no-connect").exit_code == 0
    own = tomllib.loads((folder / "my-sparks/pyproject.toml").read_text())["project"]
    assert own["dependencies"] == [f"sparkwright[verify]{requirement}"]
    readme = (folder / "my-sparks/README.md").read_text()
    assert f"pip install 'sparkwright[verify]{requirement}'" in readme


def test_no_site_over_or_within_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--spark", "a", "--no-connect").exit_code == 0
    before = (folder / "my-sparks/inventory/sparks.yaml").read_text()
    found = f"found the site {folder}/my-sparks; expected a new folder outside"
    assert f"my-sparks: {found}" in str(run("--spark", "b", "--no-connect").exception)
    assert (folder / "my-sparks/inventory/sparks.yaml").read_text() == before
    (folder / "my-sparks/files/new").mkdir()
    monkeypatch.chdir(folder / "my-sparks/files/new")
    for name in (".", "deeper"):
        said = str(run(name, "--spark", "a", "--no-connect").exception)
        assert f"{name}: {found}" in said
    assert [*Path.cwd().iterdir()] == []


def spark(address: str, user: str | None = None, **more: Any) -> Spark:
    own = {"ssh_user": user} if user else {}
    return Spark(ssh_hostname=address, **own, **more)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" nvidia@spark-a.local ", spark("spark-a.local", "nvidia")),
        ("nvidia@10.0.0.5:2222", spark("10.0.0.5", "nvidia", ssh_port=2222)),
        ("fe80::1%eth0", spark("fe80::1%eth0")),
        ("u@[2001:db8::7]:22", spark("2001:db8::7", "u", ssh_port=22)),
        ("local", Spark(local=True)),
    ],
)
def test_an_address(text: str, expected: Spark) -> None:
    assert parse_spark(text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "@host", "ssh://host", "a b", "host:port", "-oProxyCommand=x", "a\nb", "a;b"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(PlanError, match="expected the address of a Spark"):
        parse_spark(text)


def test_an_inventory_is_read_as_it_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "sparks.yaml"
    sparks = [spark("10.0.0.5", "me"), spark("::1", "me", ssh_port=2222, ssh_key="~/a key")]
    file.write_text(inventory_text(sparks, "qwen3.6-35b-nvidia", True))
    declared = load_fleet(file)
    assert [*declared.sparks.values()] == sparks
    assert [each.sparks for each in declared.replicas.values()] == [["spark-a", "spark-b"]]
    file.write_text(inventory_text(sparks * 2, "lab-tiny", True))
    (group,) = yaml.safe_load(file.read_text())["replicas"].values()
    assert group["sparks"] == [f"spark-{end}" for end in "abcd"]
    # Without --pair, each of many is a replica.
    file.write_text(inventory_text([spark(f"host-{n}") for n in range(64)], "lab-tiny", False))
    declared = load_fleet(file)
    assert [each.sparks for each in declared.replicas.values()] == [
        [name] for name in declared.sparks
    ]
    assert len(declared.sparks) == 64


def test_keys_stay_out_of_git_and_nothing_is_left_to_fill_in() -> None:
    files = site_files("my-sparks", "sparks: {}\n")
    assert "inventory/*.keys" in files[".gitignore"]
    assert "lock" not in files[".gitignore"]
    # What is in the workflow is GitHub's.
    filled = (name for name in files if not name.startswith(".github/"))
    assert [name for name in filled if "{{" in files[name]] == []
    assert "{%" not in "".join(files.values())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(PlanError, match=r"found README\.md; expected a new or empty folder"):
        write_site(tmp_path, site_files("x", yaml.safe_dump({})))
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, written = tmp_path / "mine", []
    if not is_new:
        folder.mkdir()
        (folder / "README.md").touch()

    def write(path: Path, text: str, encoding: str) -> None:
        path.touch()
        written.append(path)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(PlanError, match=f"{folder}: cannot be written .No space left on device"):
        write_site(folder, {"a/b/c": "", "a/d": "", "e/f": ""})
    assert [*tmp_path.rglob("*")] == ([] if is_new else [folder, folder / "README.md"])
