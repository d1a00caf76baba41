"""The data of a recipe's checkpoints, fetched from a hub on this machine's loopback."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkwright.plan.memory import known_checkpoints
from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from sparkwright.plan.release.model_config import shape_of
from sparkwright.plan.release.resolve import resolve_checkpoint
from tests.component.servers import serving
from tests.lab.hub import add_commit, stats
from tests.lab.hub.server import Hub
from tests.makers.recipe import good
from tests.makers.release import MODEL_CONFIG
from tests.recipes.add_model import main

REPO, DRAFTER = "owner/new-model", "owner/new-drafter"
WEIGHTS = bytes(12_345)
ARGS = {"max-model-len": 4096, "gpu-memory-utilization": 0.5, "max-num-seqs": 16}
Publish = Callable[..., str]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of files/models, with no data yet."""
    folder = tmp_path / "models"
    monkeypatch.setattr(known_checkpoints, "MODELS", folder)
    return folder


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """Publish files as the newest commit of a repository; returns the commit."""

    def publish(repo: str = REPO, **files: bytes) -> str:
        source = tmp_path / "source" / repo
        source.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = source / name.replace("_", ".")
            path.unlink(missing_ok=True)
            path.write_bytes(content)
        return add_commit(tmp_path / "hub", repo, source)

    return publish


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "hub").mkdir()
    with serving(Hub(tmp_path / "hub", ("127.0.0.1", 0))) as address:
        yield f"http://{address}"


def recipe(tmp_path: Path, *repos: str) -> str:
    """Write a recipe file of a model, and of what else the engine loads."""
    checkpoints = {
        "model" if not number else f"other-{number}": {"repo": repo, "folder": f"f{number}"}
        for number, repo in enumerate(repos)
    }
    data: dict[str, Any] = {**good(), "sparks": [1], "args": ARGS}
    path = tmp_path / "new.yaml"
    path.write_text(yaml.safe_dump(data | {"checkpoints": checkpoints}))
    return str(path)


def fetch(hub: str, *words: str) -> int:
    return main([*words, "--hf-endpoint", hub])


def test_a_recipe_of_a_new_model_is_planned_by_one_command(
    models: Path, publish: Publish, hub: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = publish(config_json=json.dumps(MODEL_CONFIG).encode(), model_safetensors=WEIGHTS)
    publish(DRAFTER, config_json=json.dumps(MODEL_CONFIG).encode(), model_safetensors=WEIGHTS)
    assert fetch(hub, recipe(tmp_path, REPO, DRAFTER)) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{models}/{REPO}.json: 0.0 GB of weights\n{models}/{DRAFTER}.json:")
    assert "# new on one Spark, gb10\n" in printed
    assert "tokens of KV cache" in printed
    known = checkpoint_data(REPO)
    assert known
    assert (known.size, known.config, known.shape) == (
        len(WEIGHTS),
        MODEL_CONFIG,
        shape_of(MODEL_CONFIG),
    )
    assert commit in known.source
    assert known.shape == resolve_checkpoint(REPO, "main", hub).shape


def test_what_is_known_is_not_asked_for_again_unless_it_is_named(
    models: Path, publish: Publish, hub: str, tmp_path: Path
) -> None:
    first = publish(config_json=json.dumps(MODEL_CONFIG).encode(), model_safetensors=WEIGHTS)
    wanted = recipe(tmp_path, REPO)
    assert fetch(hub, wanted) == 0
    written = (models / f"{REPO}.json").read_bytes()
    second = publish(model_safetensors=WEIGHTS * 2)
    before = stats(hub)
    assert fetch(hub, wanted) == 0
    assert stats(hub) == before
    assert (models / f"{REPO}.json").read_bytes() == written
    for word, commit, size in ((REPO, second, 2), (f"{REPO}@v1", first, 1)):
        assert fetch(hub, word) == 0
        data = json.loads((models / f"{REPO}.json").read_text())
        assert (commit in data["source"], data["size"]) == (True, size * len(WEIGHTS))


def test_an_architecture_that_the_plan_does_not_support_is_stored_and_said(
    models: Path, publish: Publish, hub: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"architectures": ["Qwen4ForCausalLM"]}
    publish(config_json=json.dumps(config).encode(), model_safetensors=WEIGHTS)
    assert fetch(hub, recipe(tmp_path, REPO)) == 1
    assert f"new: found no shape of {REPO}; expected an architecture" in capsys.readouterr().err
    assert json.loads((models / f"{REPO}.json").read_text())["config"] == config
