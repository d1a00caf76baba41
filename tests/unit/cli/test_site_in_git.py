"""Files of a new site for git: a workflow, hooks, and the rule by which Renovate reads the lock."""

import json
import re
import shlex
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from sparkwright.cli.main import cli
from sparkwright.cli.new_site import inventory_text, site_files, write_site
from sparkwright.declared.fleet.fleet import Spark
from sparkwright.door.keys import new_secret
from sparkwright.plan.release.lock import Lock, lock_path, write_lock
from sparkwright.plan.release.model_config import shape_of
from tests.makers.release import COMMIT, CONFIG, DIGEST, MODEL_CONFIG, checkpoint

PROJECT = Path(__file__).parents[3]
FILES = site_files("x", inventory_text([Spark(local=True)], "qwen3.6-35b-nvidia", 1))
WORKFLOW = yaml.safe_load(FILES[".github/workflows/sparks.yml"])
RENOVATE = json.loads(FILES[".github/renovate.json"])
HOOKS: dict[str, Any] = {
    hook["id"]: hook
    for each in yaml.safe_load(FILES[".pre-commit-config.yaml"])["repos"]
    for hook in each["hooks"]
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_site(tmp_path, FILES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKWRIGHT_INVENTORY", raising=False)
    return tmp_path


def _job(name: str) -> dict[str, Any]:
    job: dict[str, Any] = WORKFLOW["jobs"][name]
    return job


def test_nothing_runs_before_a_runner_is_named_nor_for_a_fork() -> None:
    assert [name for name in WORKFLOW["jobs"] if "SPARKS_RUNNER" not in _job(name)["if"]] == [
        "answer"
    ]
    assert _job("answer")["needs"] == "plan"
    assert "head.repo.full_name == github.repository" in _job("plan")["if"]


def test_what_may_write_runs_nothing_of_the_request() -> None:
    assert WORKFLOW["permissions"] == {}
    writes = [name for name in WORKFLOW["jobs"] if "write" in _job(name)["permissions"].values()]
    assert writes == ["answer"]
    for name in WORKFLOW["jobs"]:
        steps = _job(name)["steps"]
        assert all("${{" not in step.get("run", "") for step in steps)
        own = [step for step in steps if "uv run" in step.get("run", "")]
        assert bool(own) == (name not in writes)
        if own:
            assert steps[0]["with"]["persist-credentials"] is False


def test_its_actions_are_those_that_this_project_keeps_up_to_date() -> None:
    ours = "".join(path.read_text() for path in (PROJECT / ".github/workflows").glob("*.yml"))
    used = re.findall(r"uses: (\S+ # \S+)", FILES[".github/workflows/sparks.yml"])
    assert used
    assert [each for each in used if each not in ours] == []


def test_a_key_is_found_before_a_commit_and_not_shown(site: Path) -> None:
    files = HOOKS["key-files"]["files"]
    assert re.search(files, "inventory/staging.keys")
    assert re.search(files, "inventory/sparks.tls/ca.key")
    assert [name for name in FILES if re.search(files, name)] == []
    look = [*shlex.split(HOOKS["keys"]["entry"]), *FILES]
    done = subprocess.run(look, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for secret in (new_secret(), "-----BEGIN OPENSSH PRIVATE KEY-----"):
        (site / "own.py").write_text(f"key = '{secret}'\n")
        done = subprocess.run([*look, "own.py"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, "own.py\n", "")


def _found(content: str) -> list[dict[str, str | None]]:
    """Return what Renovate reads of a lock, whose expressions name groups as JavaScript does."""
    return [
        match.groupdict()
        for manager in RENOVATE["customManagers"]
        for text in manager["matchStrings"]
        for match in re.finditer(text.replace("(?<", "(?P<"), content)
    ]


def test_renovate_reads_a_lock(tmp_path: Path) -> None:
    path = lock_path(tmp_path / "sparks.yaml")
    name = f"inventory/{path.name}"
    for manager in RENOVATE["customManagers"]:
        assert all(re.search(each.strip("/"), name) for each in manager["managerFilePatterns"])
    image = {"digest": DIGEST, "config": CONFIG, "size": 1}
    known = {
        "repo": "o/n",
        "revision": "main",
        "commit": COMMIT,
        "date": str(date(2026, 4, 19)),
        "shape": shape_of(MODEL_CONFIG),
        "files": checkpoint().files,
    }
    locked = Lock.model_validate(
        {
            "images": {
                "e.org:5000/vllm:v1": image,
                "e.org/vllm:1 on x86_64": image | {"source": "its page"},
                "vllm/vllm-openai:v0.33.0": image,
            },
            "checkpoints": {
                "o/n@main": known,
                "o/n@main (a, b)": known | {"source": "its card"},
                "o/other@v1": {key: known[key] for key in ("repo", "revision", "commit", "files")},
            },
        }
    )
    write_lock(path, locked)
    digest, commit = {"currentDigest": DIGEST}, {"currentDigest": COMMIT}
    assert _found(path.read_text()) == [
        {"depName": "e.org/vllm", "currentValue": "1", "depType": "source"} | digest,
        {"depName": "e.org:5000/vllm", "currentValue": "v1", "depType": None} | digest,
        {"depName": "vllm/vllm-openai", "currentValue": "v0.33.0", "depType": None} | digest,
        {"depName": "o/n", "currentValue": "main", "depType": None} | commit,
        {"depName": "o/n", "currentValue": "main", "depType": "source"} | commit,
        {"depName": "o/other", "currentValue": "v1", "depType": None} | commit,
    ]


def test_the_site_is_checked_without_a_spark(site: Path) -> None:
    run = CliRunner().invoke(cli, ["check"])
    assert run.output == "inventory/sparks.yaml: valid, and so are settings, lock and recipes\n"
    for name, text, told in (
        ("inventory/sparks.lock.yaml", "images: 1\n", "expected a mapping of images"),
        ("group_data/sparks.py", "root = 1\n", "group_data/sparks.py: root: found 1; expected"),
        ("files/recipes/own.yaml", "extends: none\n", "found"),
        ("inventory/sparks.yaml", "sparks: {a: {ssh_port: x}}\n", 'ssh_port: found "x"; expected'),
    ):
        path = site / name
        before = path.read_text() if path.exists() else None
        path.write_text(text)
        run = CliRunner().invoke(cli, ["check"])
        assert run.exit_code == 1
        assert told in str(run.exception)
        path.unlink()
        if before is not None:
            path.write_text(before)
    assert CliRunner().invoke(cli, ["check"]).exit_code == 0
    # Each is valid by itself.
    inventory = site / "inventory/sparks.yaml"
    inventory.write_text(inventory.read_text().replace("sparks: [", "on_demand: true, sparks: ["))
    assert CliRunner().invoke(cli, ["check"]).exit_code == 0
    (site / "group_data/chat.py").write_text("hold_seconds = 0\n")
    run = CliRunner().invoke(cli, ["check"])
    assert str(run.exception) == (
        "group_data/chat.py: hold_seconds: found 0, with which no request waits for chat, and so "
        "none starts it; expected 1 or more"
    )
    assert HOOKS["check"]["entry"] == "uv run sparkwright check"
