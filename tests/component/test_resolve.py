"""What a checkpoint's name stands for, and its data, asked of a hub on this machine's loopback."""

import hashlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import yaml

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Checkpoint, Recipe
from sparkwright.plan.memory import known_checkpoints
from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from sparkwright.plan.release import ensure
from sparkwright.plan.release.lock import ImageLock, Lock, LockedFile, lock_path, write_lock
from sparkwright.plan.release.model_config import shape_of
from sparkwright.plan.release.needed_files import Choice
from sparkwright.plan.release.resolve import resolve_checkpoint
from tests.component.servers import free_port, serving
from tests.lab.hub import TOKENS, add_commit
from tests.lab.hub.server import Hub
from tests.makers.recipe import good
from tests.makers.release import MODEL_CONFIG
from tests.recipes.add_model import main

REPO = "owner/model"
MAIN = f"{REPO}@main"
MEMBER, GUEST = (
    next(token for token, account in TOKENS.items() if account.member is member)
    for member in (True, False)
)


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A hub's folder with one repository of two commits."""
    root, source = tmp_path / "hub", tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text("{}")
    add_commit(root, REPO, source)
    (source / "model.safetensors").write_bytes(b"weights" * 1000)
    add_commit(root, REPO, source)
    return root


@pytest.fixture
def hub(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # A login of whoever runs the tests is theirs: nothing here may send it.
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_developer")
    with serving(Hub(root, ("127.0.0.1", 0))) as address:
        yield f"http://{address}"


def test_a_checkpoint_has_a_commit_and_files(hub: str, root: Path, tmp_path: Path) -> None:
    locked = resolve_checkpoint(REPO, "main", hub)
    weights = (tmp_path / "source" / "model.safetensors").read_bytes()
    blob = hashlib.sha1(b"blob 2\0{}").hexdigest()
    assert locked.files["model.safetensors"] == LockedFile(
        size=len(weights), sha256=hashlib.sha256(weights).hexdigest()
    )
    assert locked.files["config.json"] == LockedFile(size=2, git=blob)
    assert resolve_checkpoint(REPO, locked.commit, hub).commit == locked.commit
    (tmp_path / "source" / "config.json").unlink()
    moved = add_commit(root, REPO, tmp_path / "source")
    assert resolve_checkpoint(REPO, "main", hub).commit == moved != locked.commit
    assert resolve_checkpoint(REPO, locked.commit, hub).files == locked.files


def dated(root: Path, number: int, day: int) -> None:
    """Set the day of April 2026 at whose very end a commit was made."""
    late = datetime(2026, 4, day, 23, 59, 59, tzinfo=UTC).timestamp()
    os.utime(root / REPO / f"v{number}", times=(late, late))


def test_the_day_of_the_commit_is_that_of_the_commit_and_not_of_the_newest(
    hub: str, root: Path
) -> None:
    dated(root, 1, 18)
    dated(root, 2, 19)
    assert resolve_checkpoint(REPO, "main", hub).date == "2026-04-19"
    older = resolve_checkpoint(REPO, "v1", hub)
    assert older.date == "2026-04-18"
    assert resolve_checkpoint(REPO, older.commit, hub).date == "2026-04-18"


def sharded(root: Path, tmp_path: Path, index: str) -> None:
    """Commit weights with an index, and two copies in another format."""
    source = tmp_path / "source"
    (source / "model.safetensors").rename(source / "model-00001-of-00001.safetensors")
    (source / "model.safetensors.index.json").write_text(index)
    (source / "original").mkdir()
    for number in range(2):
        (source / f"original/{number}.bin").write_bytes(b"x" * 1000)
    add_commit(root, REPO, source)


def test_copies_are_left_out(hub: str, root: Path, tmp_path: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00001.safetensors"}}
    sharded(root, tmp_path, json.dumps(index))
    assert sorted(resolve_checkpoint(REPO, "main", hub).files) == [
        *("config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json")
    ]
    own = resolve_checkpoint(REPO, "main", hub, choice=Choice(("config.json", "original/1*")))
    assert sorted(own.files) == ["config.json", "original/1.bin"]


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ('{"weight_map": {"b": "gone.safetensors"}}', "found no shard gone.safetensors; expec"),
        *((text, "that is no hub's") for text in ("[]", "{}", '"x"', '{"weight_map": [1]}')),
    ],
)
def test_an_index_that_cannot_be_is_an_error(
    hub: str, root: Path, tmp_path: Path, index: str, said: str
) -> None:
    sharded(root, tmp_path, index)
    with pytest.raises(PlanError, match=said):
        resolve_checkpoint(REPO, "main", hub)


JUNK = ["", "\0\0", "<html>", "[" * 100_000]


@pytest.mark.parametrize("config", [None, "[]", json.dumps(MODEL_CONFIG), *JUNK], ids=range(7))
def test_the_shape_is_read_from_config_json(
    hub: str, root: Path, tmp_path: Path, config: str | None
) -> None:
    """A repository without one has none, and junk is an error."""
    path = tmp_path / "source" / "config.json"
    path.unlink()
    if config is not None:
        path.write_text(config)
    add_commit(root, REPO, tmp_path / "source")
    if config in JUNK:
        with pytest.raises(PlanError, match=rf"{REPO}@\w+: config.json: found .*; expected JSON"):
            resolve_checkpoint(REPO, "main", hub)
        return
    expected = shape_of(MODEL_CONFIG) if config and "{" in config else None
    assert resolve_checkpoint(REPO, "main", hub).shape == expected
    assert resolve_checkpoint(REPO, "v1", hub).shape is None


@pytest.mark.parametrize(
    ("repo", "revision", "token", "expected"),
    [
        ("owner/none", "main", None, "found no such repository; expected another name, or a token"),
        (REPO, "v9", None, f"{REPO}@v9: found no such revision; expected a branch, tag or commit"),
        (REPO, "main", "hf_wrong", "found HTTP status 401; expected a valid token"),
    ],
)
def test_a_checkpoint_that_nobody_tells_of(
    hub: str, repo: str, revision: str, token: str | None, expected: str
) -> None:
    with pytest.raises(PlanError) as caught:
        resolve_checkpoint(repo, revision, hub, token)
    assert str(caught.value).startswith(f"{hub}: {repo}@{revision}: ")
    assert expected in str(caught.value)


def test_a_gated_checkpoint_needs_a_token_that_has_access(hub: str, root: Path) -> None:
    (root / REPO / "gated").touch()
    with pytest.raises(PlanError, match="found a gated repository and no token"):
        resolve_checkpoint(REPO, "main", hub)
    with pytest.raises(PlanError, match="found a gated repository and a token that has no access"):
        resolve_checkpoint(REPO, "main", hub, GUEST)
    assert resolve_checkpoint(REPO, "main", hub, MEMBER).files


def test_no_hub_at_all() -> None:
    with pytest.raises(PlanError, match=r"no answer from the Hub \(.*refused.*\); check"):
        resolve_checkpoint(REPO, "main", f"http://127.0.0.1:{free_port()}")


def recipe(not_before: date | None) -> Recipe:
    drafter = Checkpoint(repo=REPO, folder="drafter", not_before=not_before)
    found = load_recipe("qwen3.6-35b-nvfp4-dflash")
    return found.model_copy(update={"checkpoints": {"drafter": drafter}})


IMAGE = ImageLock(digest=f"sha256:{'d' * 64}", config=f"sha256:{'d' * 64}", size=7)
# A lock of the recipe's image alone, so that nobody asks a registry.
KNOWN = Lock(images={recipe(None).base_image: IMAGE})
# Holds commits of an earlier day to be too old.
WANTED = recipe(date(2026, 4, 19))


def test_a_commit_of_the_day_itself_is_taken(hub: str, root: Path) -> None:
    dated(root, 2, 19)
    assert ensure.resolve(KNOWN, [WANTED], hub, None).checkpoints[MAIN].date == "2026-04-19"


def test_an_older_one_is_refused_and_not_recorded(hub: str, root: Path, tmp_path: Path) -> None:
    dated(root, 2, 18)
    inventory = tmp_path / "sparks.yaml"
    write_lock(lock_path(inventory), KNOWN)
    before = lock_path(inventory).read_text()
    with pytest.raises(PlanError) as caught:
        ensure.ensure_lock(inventory, [WANTED], hub, None)
    (problem,) = caught.value.problems
    found = f"found commit [0-9a-f]{{12}} of 2026-04-18 for {MAIN}; expected one of 2026-04-19"
    assert problem.startswith("recipe qwen3.6-35b-nvfp4-dflash: checkpoints.drafter: found commit")
    assert caught.match(found)
    assert "--refresh qwen3.6-35b-nvfp4-dflash`" in problem
    assert lock_path(inventory).read_text() == before


def test_one_that_the_lock_has_already_is_refused_until_a_refresh(
    hub: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another recipe, which takes any commit, brought it into the lock."""
    dated(root, 2, 18)
    old = ensure.resolve(KNOWN, [recipe(None)], hub, None)
    newer = add_commit(root, REPO, tmp_path / "source")
    dated(root, 3, 20)
    with pytest.raises(PlanError, match="expected one of 2026-04-19 or later"):
        ensure.resolve(old, [WANTED], hub, None)
    monkeypatch.setattr("sparkwright.plan.release.resolve.resolve_image", lambda *_: IMAGE)
    new = ensure.resolve(old, [WANTED], hub, None, refresh=True)
    assert new.checkpoints[MAIN].commit == newer


def test_a_lock_of_before_knows_no_day_and_passes(hub: str, root: Path) -> None:
    dated(root, 2, 18)
    (locked,) = ensure.resolve(KNOWN, [recipe(None)], hub, None).checkpoints.values()
    dateless = locked.model_copy(update={"date": None})
    lock = Lock(images=KNOWN.images, checkpoints={MAIN: dateless})
    assert ensure.resolve(lock, [WANTED], hub, None) == lock


@pytest.mark.parametrize("supported", [True, False])
def test_the_data_of_a_new_model_are_stored_and_it_is_planned(
    hub: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    supported: bool,
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(known_checkpoints, "MODELS", models := tmp_path / "models")
    config = MODEL_CONFIG if supported else {"architectures": ["Qwen4ForCausalLM"]}
    (tmp_path / "source/config.json").write_text(json.dumps(config))
    commit = add_commit(root, REPO, tmp_path / "source")
    args = {"max-model-len": 4096, "gpu-memory-utilization": 0.5, "max-num-seqs": 16}
    new = {"checkpoints": {"model": {"repo": REPO, "folder": "f"}}, "sparks": [1], "args": args}
    (tmp_path / "new.yaml").write_text(yaml.safe_dump({**good(), **new}))
    assert main([str(tmp_path / "new.yaml"), "--hf-endpoint", hub]) is not supported
    said = capsys.readouterr()
    assert said.out.startswith(f"{models}/{REPO}.json: 0.0 GB of weights\n")
    assert ("# new on one Spark, gb10\n" in said.out) is supported
    assert ("tokens of KV cache" in said.out) is supported
    assert (f"new: found no shape of {REPO}; expected an architecture" in said.err) is not supported
    known = checkpoint_data(REPO)
    assert known
    assert (known.size, known.config, commit in known.source) == (7000, config, True)
    assert known.shape == resolve_checkpoint(REPO, "main", hub).shape
