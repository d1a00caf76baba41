"""`sparkwright init`: what it asks and offers, and what it says of Sparks that it cannot use."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sparkwright.cli import init as module
from sparkwright.cli.main import cli
from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.host.survey import Survey
from sparkwright.preflight.preflight import hardware_of
from sparkwright.recipe.loader import recipe_names
from sparkwright.site import facts
from sparkwright.site.choice import offers
from sparkwright.site.facts import Look
from sparkwright.site.site import NewSpark
from tests.unit.preflight.test_preflight import FIT as SPARK


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UV", raising=False)
    return tmp_path


def run(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["init", *words], input=typed)


def fleet(folder: Path) -> Fleet:
    return load_fleet(folder / "my-sparks/inventory/sparks.yaml", recipe_names())


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Look]]:
    """What looks at an address show, one after the other; the last one stays."""
    looks: dict[str, list[Look]] = {}

    def look(spark: NewSpark) -> Look:
        own = looks.get(spark.address, [Look(SPARK)])
        return own.pop(0) if len(own) > 1 else own[0]

    monkeypatch.setattr(facts, "look", look)
    return looks


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_terminal", lambda: True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "gb10"),
        ({"memory": 60 * GIB}, "gb10-64gb"),
        ({"memory": 30 * GIB}, None),
        ({"arch": "x86_64"}, None),
        ({"gpu": None}, None),
        (
            {
                "arch": "x86_64",
                "gpu": "NVIDIA GeForce RTX 5090",
                "gpu_memory": 32607 * 2**20,
                "memory": 64 * GIB,
            },
            "rtx-5090",
        ),
    ],
)
def test_what_a_machine_is(changes: dict[str, object], expected: str | None) -> None:
    machine: Survey = replace(SPARK, **changes)  # type: ignore[arg-type]
    hardware = hardware_of(machine)
    assert (hardware and hardware.name) == expected


def test_what_fits_begins_with_what_is_recommended() -> None:
    gb10 = HARDWARE["gb10"]
    assert offers(gb10, [SPARK])[0].recipe == "qwen3.6-35b-nvidia"
    assert offers(gb10, [SPARK, SPARK])[0].recipe == "qwen3.5-122b-nvidia"
    assert offers(gb10, [SPARK])[0].download > 20 * 10**9
    names = {each.recipe for each in offers(gb10, [SPARK])}
    # It is for two, or for a graphics card.
    assert "qwen3.5-35b-nvfp4-rtx-5090" not in names
    assert names <= set(recipe_names())


def test_without_a_question(folder: Path, seen: dict[str, list[Look]]) -> None:
    result = run("--spark", "me@10.0.0.5")
    assert result.exit_code == 0, result.output
    assert "me@10.0.0.5: ok: NVIDIA GB10, 12" in result.output
    assert "serves qwen3.6-35b-nvidia as qwen3.6-35b" in result.output
    assert fleet(folder).replicas["chat"].recipe == "qwen3.6-35b-nvidia"


def test_with_questions(folder: Path, seen: dict[str, list[Look]], terminal: None) -> None:
    typed = "10.0.0.5\nme\n10.0.0.6\n\n\ny\n\n"
    result = run("my-sparks", typed=typed)
    assert result.exit_code == 0, result.output
    assert fleet(folder).replicas["chat"].sparks == ["spark-a", "spark-b"]
    assert fleet(folder).replicas["chat"].recipe == "qwen3.5-122b-nvidia"
    assert [spark.ssh_user for spark in fleet(folder).sparks.values()] == ["me", "me"]


def test_what_does_not_answer_is_tried_again(
    folder: Path, seen: dict[str, list[Look]], terminal: None
) -> None:
    seen["10.0.0.5"] = [
        Look(trouble="it rejects this SSH key: ssh-copy-id me@10.0.0.5"),
        Look(SPARK),
    ]
    result = run("my-sparks", typed="me@10.0.0.5\n\ny\n\n")
    assert result.exit_code == 0, result.output
    assert "ssh-copy-id me@10.0.0.5" in result.output
    assert fleet(folder).sparks["spark-a"].ssh_hostname == "10.0.0.5"


def test_nothing_is_written_for_what_cannot_be_used(
    folder: Path, seen: dict[str, list[Look]]
) -> None:
    seen["10.0.0.5"] = [Look(trouble="no answer: no power or no network")]
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
        ([], "found no --spark; expected one for each"),
    ],
)
def test_what_is_refused(
    folder: Path, seen: dict[str, list[Look]], words: list[str], sentence: str
) -> None:
    result = run(*words)
    assert result.exit_code == 1
    assert sentence in str(result.exception)
    assert [*folder.iterdir()] == []


def test_a_site_is_not_overwritten(folder: Path, seen: dict[str, list[Look]]) -> None:
    assert run("--spark", "a").exit_code == 0
    before = (folder / "my-sparks/inventory/sparks.yaml").read_text()
    assert "found a site already" in str(run("--spark", "b").exception)
    assert (folder / "my-sparks/inventory/sparks.yaml").read_text() == before
