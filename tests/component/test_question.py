"""The question of a run: what it takes, where there is none, and what "no" leaves."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.small_site import Site, pyinfra, sparkwright
from tests.component.sshd import Machine, machines

NO = "Nothing was changed on any Spark."
BOTH = pytest.mark.parametrize("words", [sparkwright("apply"), pyinfra("deploys/spark.py")])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    with machines(tmp_path_factory.mktemp("sparks"), "spark-a", "spark-b") as found:
        yield found


@pytest.fixture
def site(tmp_path: Path, running: dict[str, Machine]) -> Site:
    for machine in running.values():
        (machine.folder / "changed").unlink(missing_ok=True)
    return Site(tmp_path, running, 2)


def answered(site: Site, words: list[str], answer: str) -> tuple[int, str]:
    """Run a command whose person types this; return its status, and what it printed."""
    done = subprocess.run(
        words,
        cwd=site.folder,
        env=site.environment(),
        input=answer,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=patience(),
    )
    assert "Traceback" not in done.stdout
    assert "Press enter" not in done.stdout
    assert done.returncode or "found no" not in done.stdout
    return done.returncode, done.stdout


def changed(site: Site) -> list[bool]:
    return [(machine.folder / "changed").exists() for machine in site.machines.values()]


@BOTH
@pytest.mark.parametrize("answer", ["y\n", "yes\n", "Y\n", "what?\ny\n"])
def test_yes_does_it(site: Site, words: list[str], answer: str) -> None:
    status, said = answered(site, words, answer)
    assert status == 0, said
    assert "Do this? [y/N]" in said
    assert changed(site) == [True, True]


@BOTH
@pytest.mark.parametrize("answer", ["n\n", "no\n", "\n"])
def test_no_and_enter_change_nothing(site: Site, words: list[str], answer: str) -> None:
    status, said = answered(site, words, answer)
    assert status == 1
    assert f"{NO}\n" in said
    assert changed(site) == [False, False]


def test_no_names_the_files_that_stay(site: Site) -> None:
    site.write(where="file")
    status, said = answered(site, sparkwright("apply"), "n\n")
    assert status == 1
    assert f"{NO[:-1]}; on this machine stays what the next run uses: " in said
    assert "inventory/sparks.lock.yaml.\n" in said


@BOTH
def test_without_anybody_to_answer_it_names_the_option(site: Site, words: list[str]) -> None:
    status, said = answered(site, words, "")
    assert status == 1
    assert "found no terminal to ask on; expected one, or -y" in said
    assert changed(site) == [False, False]
    status, said = answered(site, [*words, "-y"], "")
    assert status == 0, said
    assert "[y/N]" not in said
    assert changed(site) == [True, True]


@BOTH
def test_no_question_where_nothing_would_change(site: Site, words: list[str]) -> None:
    site.write(where="done")
    status, said = answered(site, words, "")
    assert status == 0, said
    assert "[y/N]" not in said


@BOTH
def test_no_question_where_the_run_would_fail(site: Site, words: list[str]) -> None:
    site.write(where="refused")
    status, said = answered(site, words, "y\n")
    assert status == 1
    assert "Work: a run would fail here:" in said
    assert f"Stopped: the run would fail on spark-a and spark-b: see above. {NO}\n" in said
    assert "[y/N]" not in said
    assert "Starting operation" not in said
