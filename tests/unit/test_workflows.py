"""The workflows of CI: what `actionlint` and `zizmor` would say, as far as Python can."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
WORKFLOWS = sorted((PROJECT / ".github/workflows").glob("*.yml"))


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def _jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in _read(path)["jobs"].items():
            yield f"{path.name}: {name}", job


JOBS = dict(_jobs())
STEPS = {
    f"{name}: {number}": step
    for name, job in JOBS.items()
    for number, step in enumerate(job.get("steps", ()))
}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_has_few_rights_and_an_end(name: str) -> None:
    job = JOBS[name]
    assert "permissions" in job
    if "uses" not in job:
        assert 0 < job["timeout-minutes"] <= 90
        assert re.fullmatch(r"ubuntu-\d\d\.\d\d", job["runs-on"])


def test_only_a_release_writes() -> None:
    writes = {
        name: sorted(right for right, may in job["permissions"].items() if may == "write")
        for name, job in JOBS.items()
    }
    assert {name: rights for name, rights in writes.items() if rights} == {
        "release.yml: attest": ["attestations", "id-token"],
        "release.yml: pypi": ["id-token"],
        "release.yml: site": ["id-token", "pages"],
        "release.yml: github": ["contents"],
    }
    for path in WORKFLOWS:
        assert _read(path)["permissions"] == {}
        assert _read(path)["concurrency"]["group"].endswith("-${{ github.ref }}")


@pytest.mark.parametrize("name", STEPS)
def test_a_step_uses_what_cannot_change_and_runs_no_foreign_text(name: str) -> None:
    step = STEPS[name]
    if used := step.get("uses"):
        assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", used), used
    if "/checkout@" in step.get("uses", ""):
        assert step["with"]["persist-credentials"] is False
    assert "${{" not in step.get("run", "")


def test_a_pinned_action_names_its_version_and_is_one_everywhere() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS)
    used = re.findall(r"uses: ([\w/-]+)@([0-9a-f]{40})(.*)", text)
    assert all(re.fullmatch(r" # v\d+\.\d+\.\d+", comment) for _, _, comment in used)
    assert len(set(used)) == len({action for action, _, _ in used})


def test_the_versions_of_python_are_those_of_the_package() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    named = [each.removeprefix(prefix) for each in project["classifiers"] if prefix in each]
    versions = [each for each in named if "Only" not in each]
    assert JOBS["check.yml: python"]["strategy"]["matrix"]["python"] == versions
    assert project["requires-python"] == f">={versions[0]}"


def test_the_commands_are_there() -> None:
    runs = "\n".join(step.get("run", "") for step in STEPS.values())
    called = re.findall(r"\bmake ([a-z -]+)$", runs, re.MULTILINE)
    targets = {word for words in called for word in words.split()}
    known = re.findall(r"^([a-z -]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert targets == {"lint", "unit", "docs", "test", "dist", "sbom", "audit"}
    assert targets - {word for words in known for word in words.split()} == set()
    (module,) = re.findall(r"python -m ([\w.]+)", runs)
    assert (PROJECT / f"{module.replace('.', '/')}.py").exists()
