"""`sparkwright init`: what it asks and offers, and what it says of Sparks that it cannot use."""

import json
import re
import shlex
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from sparkwright import __version__
from sparkwright.cli import init as module
from sparkwright.cli import look as look_module
from sparkwright.cli import new_site as site
from sparkwright.cli.init import offers
from sparkwright.cli.main import cli
from sparkwright.common.hardware import HARDWARE
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet, Spark
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.machine.host.survey import Survey
from tests.makers.preflight import FIT as SPARK


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
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Survey | str]]:
    """What looks at an address show, one after the other; the last one stays."""
    looks: dict[str, list[Survey | str]] = {}

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


def test_without_a_question(folder: Path, seen: dict[str, list[Survey | str]]) -> None:
    result = run("--spark", "me@10.0.0.5")
    assert result.exit_code == 0, result.output
    assert "me@10.0.0.5: ok: NVIDIA GB10, 12" in result.output
    assert " 0 GB" not in result.output
    assert "(others: sparkwright recipes list)" in result.output
    assert "serves qwen3.6-35b-nvidia as qwen3.6-35b" in result.output
    assert fleet(folder).replicas["chat"].recipe == "qwen3.6-35b-nvidia"


def test_with_questions(folder: Path, seen: dict[str, list[Survey | str]], terminal: None) -> None:
    typed = "10.0.0.5\nme\n10.0.0.6\n\n\ny\n\n"
    result = run("my-sparks", typed=typed)
    assert result.exit_code == 0, result.output
    assert fleet(folder).replicas["chat"].sparks == ["spark-a", "spark-b"]
    assert fleet(folder).replicas["chat"].recipe == "qwen3.5-122b-nvidia"
    assert [spark.ssh_user for spark in fleet(folder).sparks.values()] == ["me", "me"]


def test_what_does_not_answer_is_tried_again(
    folder: Path, seen: dict[str, list[Survey | str]], terminal: None
) -> None:
    seen["10.0.0.5"] = [
        "it rejects this SSH key: ssh-copy-id me@10.0.0.5",
        SPARK,
    ]
    result = run("my-sparks", typed="me@10.0.0.5\n\ny\n\n")
    assert result.exit_code == 0, result.output
    assert "ssh-copy-id me@10.0.0.5" in result.output
    assert fleet(folder).sparks["spark-a"].ssh_hostname == "10.0.0.5"


def test_nothing_is_written_for_what_cannot_be_used(
    folder: Path, seen: dict[str, list[Survey | str]]
) -> None:
    seen["10.0.0.5"] = ["no answer: no power or no network"]
    result = run("--spark", "me@10.0.0.5")
    assert result.exit_code == 1
    assert "no answer: no power or no network" in result.output
    assert "--no-connect" in str(result.exception) + result.output
    assert [*folder.iterdir()] == []
    assert run("--spark", "me@10.0.0.5", "--no-connect").exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--spark", "a", "--spark", "b"], "expected --pair"),
        (["--spark", "a", "--pair"], "found 1 Sparks; expected two"),
        (["--spark", "a", "--recipe", "qwen3.6-35b-nvida"], "did you mean 'qwen3.6-35b-nvidia'"),
        (["--spark", "a", "--key", "/nosuch"], "--key: found no file /nosuch; expected a private"),
        (["--spark", "ssh://a"], "expected the address of a Spark"),
        (
            ["--spark", "a@c", "--spark", "b@c:22"],
            "--spark: found c twice; expected each Spark once",
        ),
        (["--spark", "local", "--spark", "local", "--no-pair"], "--spark: found local twice"),
        ([], "found no --spark; expected one for each"),
    ],
)
def test_what_is_refused(
    folder: Path, seen: dict[str, list[Survey | str]], words: list[str], sentence: str
) -> None:
    result = run(*words)
    assert result.exit_code == 1
    assert sentence in str(result.exception)
    assert [*folder.iterdir()] == []


@pytest.mark.parametrize(
    ("name", "project"),
    [
        ("my sparks", "my-sparks-site"),
        ("mein Spärk", "mein-spark-site"),
        ("sparkwright", "sparkwright-site"),
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
        (None, f"~={__version__}"),
        ({"url": "file:///c/a%20b", "dir_info": {"editable": True}}, " @ file:///c/a%20b"),
        (
            {"url": "https://e.org/s.git", "vcs_info": {"vcs": "git", "commit_id": "1a2b"}},
            " @ git+https://e.org/s.git@1a2b",
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
