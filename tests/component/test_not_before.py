"""Commits that a recipe holds to be too old, asked of a hub on this machine's loopback."""

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Checkpoint, Recipe
from sparkwright.plan.release.ensure import ensure_lock, resolve
from sparkwright.plan.release.lock import ImageLock, Lock, lock_path, write_lock
from tests.component.servers import serving
from tests.lab.hub import add_commit
from tests.lab.hub.server import Hub

REPO = "owner/drafter"
DIGEST = "sha256:" + "d" * 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A hub's folder with one repository of one commit."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source/config.json").write_text("{}")
    add_commit(tmp_path / "hub", REPO, tmp_path / "source")
    return tmp_path / "hub"


@pytest.fixture
def hub(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Hub(root, ("127.0.0.1", 0))) as address:
        yield f"http://{address}"


@pytest.fixture
def known() -> Lock:
    """A lock of the recipe's image alone, so that nobody asks a registry."""
    image = ImageLock(digest=DIGEST, config=DIGEST, size=7)
    return Lock(images={recipe(None).base_image: image})


def recipe(not_before: date | None) -> Recipe:
    drafter = Checkpoint(repo=REPO, folder="drafter", not_before=not_before)
    found = load_recipe("qwen3.6-35b-nvfp4-dflash")
    return found.model_copy(update={"checkpoints": {"drafter": drafter}})


def committed(root: Path, number: int, day: int) -> None:
    """Set the day of April 2026 at whose very end a commit was made."""
    moment = datetime(2026, 4, day, 23, 59, 59, tzinfo=UTC).timestamp()
    os.utime(root / REPO / f"v{number}", times=(moment, moment))


def test_a_commit_of_the_day_itself_is_taken(hub: str, root: Path, known: Lock) -> None:
    committed(root, 1, 19)
    lock = resolve(known, [recipe(date(2026, 4, 19))], hub, None)
    assert lock.checkpoints[f"{REPO}@main"].date == "2026-04-19"


def test_an_older_one_is_refused_and_not_recorded(
    hub: str, root: Path, known: Lock, tmp_path: Path
) -> None:
    committed(root, 1, 18)
    inventory = tmp_path / "sparks.yaml"
    write_lock(lock_path(inventory), known)
    before = lock_path(inventory).read_text()
    with pytest.raises(PlanError) as caught:
        ensure_lock(inventory, [recipe(date(2026, 4, 19))], hub, None)
    (problem,) = caught.value.problems
    found = f"found commit [0-9a-f]{{12}} of 2026-04-18 for {REPO}@main; expected one of 2026-04-19"
    assert problem.startswith("recipe qwen3.6-35b-nvfp4-dflash: checkpoints.drafter: found commit")
    assert caught.match(found)
    assert "--refresh qwen3.6-35b-nvfp4-dflash`" in problem
    assert lock_path(inventory).read_text() == before


def test_one_that_the_lock_has_already_is_refused_until_a_refresh(
    hub: str, root: Path, known: Lock, tmp_path: Path
) -> None:
    """Another recipe, which takes any commit, brought it into the lock."""
    committed(root, 1, 18)
    old = resolve(known, [recipe(None)], hub, None)
    newer = add_commit(root, REPO, tmp_path / "source")
    committed(root, 2, 20)
    wanted = recipe(date(2026, 4, 19))
    with pytest.raises(PlanError, match="expected one of 2026-04-19 or later"):
        resolve(old, [wanted], hub, None)
    again = Lock(checkpoints=old.checkpoints)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "sparkwright.plan.release.resolve.resolve_image",
            lambda *_: known.images[wanted.base_image],
        )
        new = resolve(again, [wanted], hub, None, refresh=True)
    assert new.checkpoints[f"{REPO}@main"].commit == newer


def test_a_lock_of_before_knows_no_day_and_passes(hub: str, root: Path, known: Lock) -> None:
    committed(root, 1, 18)
    (locked,) = resolve(known, [recipe(None)], hub, None).checkpoints.values()
    dateless = locked.model_copy(update={"date": None})
    lock = Lock(images=known.images, checkpoints={f"{REPO}@main": dateless})
    assert resolve(lock, [recipe(date(2026, 4, 19))], hub, None) == lock
