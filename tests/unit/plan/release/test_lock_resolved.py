"""How a lock is filled: what is asked, recorded and refused."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.loader import RECIPES, load_recipe, recipe_names
from sparkwright.plan.release import ensure, resolve
from sparkwright.plan.release.ensure import ensure_lock, published
from sparkwright.plan.release.lock import (
    CheckpointLock,
    ImageLock,
    Lock,
    LockedFile,
    image_key,
    lock_path,
    names_of,
    read_lock,
    write_lock,
)
from sparkwright.plan.release.needed_files import Choice
from tests.commands import sparkwright as command
from tests.makers.refused import refused
from tests.makers.release import COMMIT, DIGEST

RECIPE = load_recipe("qwen3.6-35b-nvfp4-dflash")
IMAGE, MODEL, DRAFTER = (
    "ghcr.io/aeon-7/vllm-spark-omni-q36:v1.2",
    "AEON-7/Qwen3.6-35B-A3B-heretic-NVFP4",
    "z-lab/Qwen3.6-35B-A3B-DFlash",
)
ALL = [f"{IMAGE} aarch64", MODEL, DRAFTER]


class Answers:
    """A hub and registry that count what they are asked, and can move on or fall silent."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.choices: list[tuple[str, str, Choice]] = []
        self.commit = COMMIT
        self.silent: set[str] = set()
        self.mirrors: Mapping[str, str] = {}

    def checkpoint(
        self, repo: str, revision: str, endpoint: str | None, token: str | None, choice: Choice
    ) -> CheckpointLock:
        self._ask(repo)
        self.choices.append((repo, revision, choice))
        files = {"config.json": LockedFile(size=1, git="b" * 40)}
        return CheckpointLock(repo=repo, revision=revision, commit=self.commit, files=files)

    def image(self, reference: str, arch: str, mirrors: Mapping[str, str]) -> ImageLock:
        self.mirrors = mirrors
        self._ask(f"{reference} {arch}")
        return ImageLock(digest=DIGEST, config=DIGEST, size=7)

    def _ask(self, name: str) -> None:
        self.asked.append(name)
        if name in self.silent:
            raise PlanError(f"{name}: found no answer")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    answers = Answers()
    monkeypatch.setattr(resolve, "resolve_checkpoint", answers.checkpoint)
    monkeypatch.setattr(resolve, "resolve_image", answers.image)
    monkeypatch.setattr(ensure, "_known", {})
    return answers


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "sparks.yaml"
    path.write_text(
        f"sparks: {{a: {{}}}}\nreplicas: {{c: {{recipe: {RECIPE.name}, sparks: [a]}}}}\n"
    )
    return path


def ensured(inventory: Path, **options: Any) -> Lock:
    return ensure_lock(inventory, [RECIPE], None, None, **options)


def test_first_use_asks_once_and_records(
    answers: Answers,
    inventory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ensured(inventory, record=False).image(RECIPE)
    assert answers.asked == ALL
    assert not lock_path(inventory).exists()
    answers.asked.clear()
    monkeypatch.setattr(ensure, "_known", {})  # as in another process
    first = ensured(inventory)
    assert answers.asked == ALL
    answers.commit = "e" * 40
    for known in (ensure._known, {}):
        monkeypatch.setattr(ensure, "_known", known)
        assert ensured(inventory) == first
    assert answers.asked == ALL
    what = "what the names in recipes stand for; keep it in git"
    assert capsys.readouterr() == ("", f"wrote {lock_path(inventory)}: {what}\n")


def test_a_mirror_is_asked_and_the_names_stay(answers: Answers, inventory: Path) -> None:
    mirrors = {"ghcr.io": "harbor.lan/ghcr"}
    assert ensured(inventory, mirrors=mirrors).image(RECIPE)
    assert answers.mirrors == mirrors
    assert "harbor" not in lock_path(inventory).read_text()
    # By the program, too, which does not read the group data.
    words = ["--refresh", "--registry-mirror"]
    answers.mirrors = {}
    assert command("lock", *words, "ghcr.io=harbor.lan/ghcr", inventory=inventory) == 0
    assert answers.mirrors == mirrors


def test_what_may_be_lost_is_not_looked_up(
    answers: Answers, inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(lock: Lock | None) -> None:
        seen.append(lock)
        raise PlanError("refused")

    seen: list[Lock | None] = []
    for _ in range(2):
        with pytest.raises(PlanError, match="refused"):
            ensured(inventory, check=refuse)
    assert (seen, answers.asked, lock_path(inventory).exists()) == ([None, None], [], False)
    ensured(inventory, check=seen.append)
    monkeypatch.setattr(ensure, "_known", {})
    # All is there.
    full = ensured(inventory, check=refuse)
    write_lock(lock_path(inventory), full.model_copy(update={"checkpoints": {}}))
    monkeypatch.setattr(ensure, "_known", {})
    with pytest.raises(PlanError, match="refused"):
        ensured(inventory, check=refuse)


def test_an_image_is_locked_for_each_processor(answers: Answers) -> None:
    card = RECIPE.model_copy(update={"hardware": ["rtx-5090"], "checkpoints": {}})
    new = ensure.resolve(Lock(), [card, RECIPE], None, None)
    assert answers.asked == [f"{IMAGE} x86_64", *ALL]
    assert sorted(new.images) == [IMAGE, f"{IMAGE} on x86_64"]
    assert ensure.resolve(new, [RECIPE, card], None, None) == new
    assert new.image(card) is new.images[f"{IMAGE} on x86_64"]


def test_many_hosts_at_once_ask_once(answers: Answers, inventory: Path) -> None:
    with ThreadPoolExecutor() as pool:
        assert len({lock.image(RECIPE) for lock in pool.map(ensured, [inventory] * 8)}) == 1
    assert answers.asked == ALL


def test_all_that_fails_is_told_and_nothing_recorded(answers: Answers, inventory: Path) -> None:
    answers.silent = set(ALL[:2])
    assert refused(ensured, inventory) == tuple(f"{name}: found no answer" for name in ALL[:2])
    assert not lock_path(inventory).exists()


def test_the_program_fills_refreshes_and_checks(
    answers: Answers, inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lock_path(inventory)
    assert command("lock", "--check", inventory=inventory) == 1
    assert not path.exists()
    assert command("lock", inventory=inventory) == 0
    assert capsys.readouterr().out.count("+ ") == 6
    assert command("lock", "--check", inventory=inventory) == 0
    assert "nothing changed" in capsys.readouterr().out

    answers.commit = "e" * 40
    before = path.read_bytes()
    assert command("lock", inventory=inventory) == 0
    assert command("lock", "--refresh", "--check", inventory=inventory) == 1
    assert path.read_bytes() == before
    assert command("lock", "--refresh", inventory=inventory) == 0
    out = capsys.readouterr().out
    assert f"{COMMIT}, 1 files, 1 bytes -> {'e' * 40}, 1 files, 1 bytes" in out
    assert {locked.commit for locked in read_lock(path).checkpoints.values()} == {"e" * 40}


def test_the_program_takes_what_a_spark_serves(
    answers: Answers, inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest, commit = "sha256:" + "1" * 64, "2" * 40
    name = IMAGE.rpartition(":")[0]
    words = ["--adopt", f"{name}@{digest}", "--adopt", f"{MODEL}@{commit}"]
    assert command("lock", *words, inventory=inventory) == 0
    assert f"{name}@{digest} aarch64" in answers.asked
    assert [each[:2] for each in answers.choices] == [(MODEL, commit), (DRAFTER, "main")]
    lock = read_lock(lock_path(inventory))
    assert set(lock.images) == {IMAGE}
    assert set(lock.checkpoints) == {f"{MODEL}@main", f"{DRAFTER}@main"}
    assert {each.source for each in (*lock.images.values(), *lock.checkpoints.values())} == {None}
    capsys.readouterr()
    for version, told in (
        (f"other/name@{commit}", f"found other/name; expected one of {MODEL}, {DRAFTER}"),
        (f"{MODEL}@main", f"found {MODEL}@main; expected NAME@"),
        ("garbage", "found garbage; expected NAME@sha256:"),
        (f"@{commit}", f"found @{commit}; expected NAME@sha256:"),
        (f"{MODEL}@{digest}", f"found {MODEL}; expected {name}"),
        (f"{MODEL}@{'3' * 40}", f"found two versions of {MODEL}; expected one"),
    ):
        assert command("lock", *words, "--adopt", version, inventory=inventory) == 1
        assert f"--adopt: {told}" in capsys.readouterr().err


def test_a_choice_of_files_is_an_entry_of_its_own_at_the_commit_that_is_locked(
    answers: Answers,
) -> None:
    plain = ensure.resolve(Lock(), [RECIPE], None, None)
    answers.choices.clear()
    model = RECIPE.checkpoints["model"]
    own = model.model_copy(update={"files": ["*.json", "model*.safetensors"]})
    changed = RECIPE.model_copy(update={"checkpoints": RECIPE.checkpoints | {"model": own}})
    new = ensure.resolve(plain, [changed], None, None)
    assert answers.choices == [(model.repo, COMMIT, Choice(("*.json", "model*.safetensors")))]
    assert set(new.checkpoints) == {
        *plain.checkpoints,
        f"{model.repo}@main (*.json, model*.safetensors)",
    }
    assert new.checkpoint(own) is not new.checkpoint(model)
    assert new.folder(model) == f"{model.folder}@{COMMIT[:12]}"
    assert new.folder(own).startswith(f"{new.folder(model)}-")
    again = own.model_copy(update={"files": ["model*.safetensors", "*.json"]})
    assert new.folder(again) == new.folder(own)
    other = own.model_copy(update={"files": ["*.json"]})
    assert new.checkpoint(other) is None
    # --refresh asks for what the name stands for today.
    ensure.resolve(new, [changed], None, None, refresh=True)
    assert answers.choices[-2][1] == "main"


def test_a_recipe_by_path_is_refreshed_by_its_name(answers: Answers, inventory: Path) -> None:
    """That is how messages name it."""
    other = inventory.with_name("mine.yaml")
    other.write_text((RECIPES / f"{RECIPE.name}.yaml").read_text())
    inventory.write_text("sparks: {a: {}}\nreplicas: {c: {recipe: ./mine.yaml, sparks: [a]}}\n")
    assert command("lock", "--refresh", "mine", inventory=inventory) == 0
    assert sorted(answers.asked) == sorted(ALL)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--refresh", "lab-tiny"], "--refresh: found lab-tiny; expected qwen3.6"),
        (
            ["--registry-mirror", "h.lan"],
            "--registry-mirror: found h.lan; expected REGISTRY=MIRROR",
        ),
        (["--registry-mirror", "ghcr.io=https://h.lan"], "expected a registry without scheme"),
        (["-i", "none.yaml"], "found no such file"),
    ],
)
def test_the_program_refuses(
    answers: Answers,
    inventory: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    expected: str,
) -> None:
    if "none.yaml" in words:
        words, inventory = [], inventory.with_name("none.yaml")
    assert command("lock", *words, inventory=inventory) == 1
    assert expected in capsys.readouterr().err
    assert answers.asked == []


def test_the_first_lock_takes_what_a_public_source_names(inventory: Path, answers: Answers) -> None:
    """It says who it was."""
    wanted = load_recipe("qwen3.6-35b-nvidia")
    image = published()["vllm/vllm-openai:v0.28.0"]
    checkpoint = published()["nvidia/Qwen3.6-35B-A3B-NVFP4@main"]
    answers.commit = checkpoint["version"]
    lock = ensure_lock(inventory, [wanted], None, None)
    assert f"vllm/vllm-openai@{image['version']} aarch64" in answers.asked
    assert lock.images["vllm/vllm-openai:v0.28.0"].source == image["source"]
    (locked,) = lock.checkpoints.values()
    assert (locked.revision, locked.source) == ("main", checkpoint["source"])
    assert read_lock(lock_path(inventory)) == lock
    assert "without one it is what the registry" in lock_path(inventory).read_text()
    # An owner's own stays.
    own = Lock(images={image_key(wanted): ImageLock(digest=DIGEST, config=DIGEST, size=1)})
    assert ensure.resolve(own, [wanted], None, None).image(wanted) == own.image(wanted)


def test_what_public_sources_name_is_of_our_recipes() -> None:
    names = {name for each in recipe_names() for name in names_of([load_recipe(each)])}
    assert published().keys() <= names
    assert all(ensure._VERSION.fullmatch(each["version"]) for each in published().values())
