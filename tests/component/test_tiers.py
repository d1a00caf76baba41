"""The runner of the tiers: what fails, hangs or takes too long fails the run, and says so."""

import subprocess
from pathlib import Path

import pytest

from tests import clock, tiers
from tests.tiers import Part


@pytest.fixture(autouse=True)
def results(monkeypatch, tmp_path):
    """Logs in a folder of the test's own, and bounds for a machine of ordinary speed."""
    monkeypatch.setattr(clock, "_FACTOR", 1.0)
    monkeypatch.setattr(tiers, "RESULTS", tmp_path)
    monkeypatch.setattr(tiers, "PROJECT", tmp_path)
    return tmp_path


def part(name, command, minutes=1.0, tier="unit"):
    return Part(tier, name, minutes, command)


def test_the_others_run_on_where_one_fails(capsys, results):
    ended = tiers.run([part("one", "echo first"), part("two", "true")])
    assert tiers.summary(ended, 65) == 0
    said = capsys.readouterr().out
    assert "one: passed in 0:00" in said
    assert "1:05 minutes in all" in said
    failing = part("bad", "echo the reason; exit 3")
    ended = tiers.run([failing, *(part(f"p{n}", "echo ran") for n in range(6))])
    assert tiers.summary(ended, 1) == 1
    assert "=== bad failed; the end of bad.log:\n\nthe reason" in capsys.readouterr().out
    assert [(results / f"p{n}.log").read_text() for n in range(6)] == ["ran\n"] * 6


def test_a_part_that_hangs_is_ended():
    (ended,) = tiers.run([part("stuck", "sleep 1000", minutes=0.001)])
    assert ended.process.returncode
    assert "it hangs" in ended.part.log.read_text()


@pytest.mark.parametrize("tier", ["system", "acceptance"])
def test_each_module_on_virtual_sparks_is_in_one_part(tier):
    words = [
        word for parts in tiers.RUNS.values() for part in parts for word in part.command.split()
    ]
    modules = sorted(Path(__file__).parents[1].glob(f"{tier}/test_*.py"))
    counts = {
        module.name: words.count(f"tests/{tier}/{module.name}")
        for module in modules
        if "pytest.mark.campaign" not in module.read_text()
    }
    assert counts
    assert set(counts.values()) == {1}, counts


def test_a_run_that_passes_notes_its_commit_for_a_release(monkeypatch, results):
    """Of a tree that is as it was committed: no other is released."""

    def git(*words):
        own = ("-c", "user.name=x", "-c", "user.email=x@x")
        return subprocess.check_output(["git", "-C", results, *own, *words], text=True)

    monkeypatch.setattr(tiers, "RUNS", {"rest": [part("one", "true")]})
    git("init", "--quiet")
    (results / ".gitignore").write_text("*.log\n*.passed\n")
    git("add", ".")
    git("commit", "--quiet", "--message=x")
    assert tiers.main(["rest"]) == 0
    assert (results / "rest.passed").read_text() == git("rev-parse", "HEAD")
    (results / "changed").touch()
    assert tiers.main(["rest"]) == 0
    assert (results / "rest.passed").read_text() == ""
