"""The memory plan: beside published figures, of two engines, and the data that it is made of."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.plan.memory import known_checkpoints
from sparkwright.plan.memory.beside import engine_bytes, sized
from sparkwright.plan.memory.known_checkpoints import (
    MODELS,
    checkpoint_data,
    data_file,
    nominal_load,
)
from sparkwright.plan.memory.kv_cache import CacheSettings, flags, kv_cache
from sparkwright.plan.memory.plan import MIB, Load, MemoryPlan
from sparkwright.plan.release.lock import (
    CheckpointLock,
    Lock,
    LockedFile,
    checkpoint_key,
    write_lock,
)
from sparkwright.plan.release.model_config import Shape
from tests.commands import sparkwright
from tests.makers.memory import BF16, CARD, MTP, PAIR, findings, load, planned
from tests.makers.refused import refusal
from tests.unit.seed_memory import logged, published

DOCS = Path(__file__).parents[4] / "docs" / "memory.md"
SHAPE = checkpoint_data("Qwen/Qwen3.5-35B-A3B").shape


def test_the_docs_say_how_many_published_figures_are_met():
    free = [row for row in published() if not row.fitted]
    near = sum(abs(row.off) < 0.05 for row in free)
    assert (len(free), near) == (28, 20)
    stated = f"Of {len(free)} published figures from which no constant was chosen, {near} are met"
    assert stated in DOCS.read_text()
    # What vLLM computed is met exactly.
    exact = [row for row in free if "GiB, tokens" in row.figure]
    assert len(exact) == 5
    assert all(row.plan == row.theirs for row in exact)


def test_a_real_gpu_is_met_though_no_constant_was_chosen_by_it():
    """Weights and layout are; what runs beside them is planned too large, on the safe side."""
    for row in logged():
        if row.figure.startswith(("steps", "graphs")):
            assert row.off > 0, str(row)
        elif row.figure == "KV cache, GiB":
            assert -0.05 < row.off < 0, str(row)
        else:
            # The log rounds the KV cache to 0.01 GiB or a block.
            assert abs(row.off) < 0.002, str(row)


def shape(**changes: int) -> Shape:
    base = {"kv_heads": 1, "head_dim": 64, "positions": 4096, "hidden": 64}
    return Shape.model_validate(base | changes)


@pytest.mark.parametrize(
    ("full", "window", "groups", "pages"),
    # The first is vLLM's own example (v1/core/kv_cache_utils.py): gpt-oss-20b and a drafter. Below
    # one and a half times as many, padding costs less than a second group for a few layers.
    [(13, 12, 2, 13), (17, 12, 2, 17), (18, 12, 3, 12), (10, 30, 4, 10)],
)
def test_kinds_of_almost_as_many_layers_are_padded(full: int, window: int, groups: int, pages: int):
    model = shape(full_attention=full, sliding_attention=window, sliding_window=32)
    cache = kv_cache(model, CacheSettings())
    assert (cache.groups, cache.pool) == (groups, pages * cache.page)


@pytest.mark.parametrize(
    ("vllm", "share", "in_share", "caching"),
    [
        ("0.19.1", 0.9, False, False),
        ("0.20.2", 0.92, True, False),
        ("0.27.0", 0.92, True, False),
        ("0.28.0", 0.92, True, True),
    ],
)
def test_defaults_follow_the_release(vllm: str, share: float, in_share: bool, caching: bool):
    plan = planned(BF16, vllm, gpu_memory_utilization=None, enable_prefix_caching=None)
    assert (plan.flags.utilization, plan.flags.prefix_caching) == (share, caching)
    assert plan.flags.graphs_in_share is in_share


def test_defaults_follow_the_memory_the_checkpoint_and_the_environment():
    assert planned(CARD).flags.release == (0, 18, 0)
    assert planned(CARD).flags.graphs_in_share
    # A checkpoint with scales has an fp8 cache.
    assert planned("qwen3.6-35b-nvidia", kv_cache_dtype=None).flags.number_bytes == 1
    assert planned(BF16).flags.number_bytes == 2
    assert planned(BF16, enforce_eager=True).graphs == 0
    recipe = load_recipe("qwen3.5-35b-fp8")
    recipe = recipe.model_copy(update={"args": {**recipe.args, "max-num-seqs": None}})
    assert flags(recipe, SHAPE, 121 * GIB, tensor_parallel=1).sequences == 1024
    assert flags(recipe, SHAPE, 31 * GIB, tensor_parallel=1).sequences == 256


@pytest.mark.parametrize(
    ("plan", "gib"),
    [
        (planned(BF16), pytest.approx(65.5, abs=0.1)),
        # FP8 as they load halves what is no embedding.
        (planned(BF16, quantization="fp8"), pytest.approx(34.1, abs=0.1)),
        # A table of n-grams stays on the disk where the recipe says so: 73.97 in
        # eugr/spark-vllm-docker, 388, with what vLLM keeps beside the weights.
        (planned("qwen3.8-flash-next-b12x"), pytest.approx(71.75, abs=0.01)),
        (planned(PAIR, sparks=2), pytest.approx(123.62 / 2, abs=0.01)),
    ],
)
def test_weights(plan: MemoryPlan, gib: object):
    assert plan.weights / GIB == gib


def test_its_kv_cache_holds_what_others_logged():
    plan = planned("qwen3.8-flash-next-b12x", kv_cache_memory_bytes="14G")
    # 3.79 (ursuciprian/qwen3.8-flash-next-1x-dgx-spark), with smaller records of the states.
    assert plan.concurrency == pytest.approx(3.79, rel=0.1)


def test_the_mtp_head_is_loaded_where_it_drafts():
    draft = {"method": "mtp", "num_speculative_tokens": 1}
    more = planned(BF16, speculative_config=draft).weights - planned(BF16).weights
    assert more == 2 * SHAPE.mtp_parameters


def test_a_drafter_has_weights_and_a_cache_of_its_own():
    plan = planned("qwen3.6-35b-nvfp4-dflash")
    assert plan.drafter == 905_000_000
    assert plan.cache.groups == 7
    # Two Sparks share it, and the weights.
    assert planned("qwen3.6-35b-nvfp4-dflash", sparks=2).drafter == 905_000_000 // 2
    assert planned(MTP, sparks=2).weights == planned(MTP).weights // 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([MTP, "--hardware", "gb10-64gb"], "error: weights of 75.9 GiB"),
        (["lab-tiny"], "--hardware: found lab; expected one of gb10"),
        ([BF16, "--sparks", "2"], "--sparks: found 2; expected 1"),
        (
            [BF16, "--locked"],
            f"{BF16}: found no size of Qwen/Qwen3.5-35B-A3B; expected it in "
            "inventory/sparks.lock.yaml: `sparkwright lock` records it once a replica serves",
        ),
    ],
)
def test_what_does_not_fit_or_cannot_be(words, expected, capsys: pytest.CaptureFixture[str]):
    assert sparkwright("recipes", "memory", *words) == 1
    said = capsys.readouterr()
    assert expected in said.out + said.err


GB10, LAB = HARDWARE["gb10"], HARDWARE["lab"]
SMALL = "qwen3.6-35b-nvidia"
RECIPES = [
    name
    for name in recipe_names()
    if "gb10" in (own := load_recipe(name)).hardware and 1 in own.sparks and own.answers == "chat"
]


def shapeless(share: float) -> Load:
    own = load(SMALL, gpu_memory_utilization=share)
    weights = {name: replace(each, shape=None) for name, each in own.checkpoints.items()}
    return replace(own, checkpoints=weights)


def test_an_engine_gets_its_cache_in_bytes_and_a_share_that_is_what_it_takes() -> None:
    own = load(SMALL, gpu_memory_utilization=0.4)
    given = sized(own, GB10)
    assert given.options.kv_cache_memory_bytes
    assert given.options.kv_cache_memory_bytes % MIB == 0
    # What it had alone, but for the graphs that some releases have outside of the share.
    assert given.options.gpu_memory_utilization == pytest.approx(0.4, abs=0.02)
    again = nominal_load(given, 1)
    assert engine_bytes(again, GB10) == pytest.approx(engine_bytes(own, GB10), abs=MIB)
    assert sized(again, GB10).args == given.args
    # A size of the recipe's own is kept. vLLM would wait in vain for nine tenths to be free.
    own = load(SMALL, gpu_memory_utilization=0.9, kv_cache_memory_bytes=4 * GIB)
    given = sized(own, GB10)
    assert given.options.kv_cache_memory_bytes == 4 * GIB
    assert given.options.gpu_memory_utilization < 0.5
    # What cannot be planned stays as it is.
    unknown = shapeless(0.9)
    assert sized(unknown, GB10) == unknown.recipe
    assert sized(own, LAB) == own.recipe
    assert engine_bytes(own, LAB) == 0


def test_the_sum_has_to_fit() -> None:
    beside = engine_bytes(load(SMALL, gpu_memory_utilization=0.1), GB10)
    assert findings(load(BF16)) == []
    (finding,) = findings(load(BF16), beside=beside)
    assert finding.error
    assert f"the other engine, which takes {beside / GIB:.1f} GiB" in finding.found
    # The remedy holds, with the other one beside it.
    (share,) = re.findall(r"\d[\d.]*", finding.remedy)
    again = load(BF16, gpu_memory_utilization=float(share))
    assert not [each for each in findings(again, beside=beside) if each.error]


@pytest.mark.parametrize("chat", RECIPES)
def test_a_model_for_texts_fits_beside_all_but_the_largest_shares(chat: str) -> None:
    """As docs/two-models.md says."""
    share = load_recipe(chat).options.gpu_memory_utilization
    for texts in ("qwen3-embedding-0.6b", "qwen3-reranker-0.6b"):
        found = findings(load(chat), beside=engine_bytes(load(texts), GB10))
        assert any(each.error for each in found) == (share == 0.85), found


def test_a_card_has_no_host_beside_its_engines() -> None:
    own = load(CARD, gpu_memory_utilization=0.9, max_num_seqs=16)
    assert not [each for each in findings(own, "rtx-5090") if each.error]
    errors = [each for each in findings(own, "rtx-5090", beside=8 * GIB) if each.error]
    assert any("beside the other engine's 8.0 GiB" in each.found for each in errors)


def test_what_has_no_plan_counts_with_its_share() -> None:
    beside = engine_bytes(shapeless(0.4), GB10)
    assert beside == int(0.4 * GB10.total_gib * GIB) + 2 * GIB
    unknown, wrong = findings(shapeless(0.6), beside=beside)
    assert (unknown.error, wrong.error) == (False, True)
    assert "its share and the other engine take 75.0 GiB and 50.7 GiB of " in wrong.found
    assert findings(shapeless(0.6)) == [unknown]
    assert findings(shapeless(0.5), beside=engine_bytes(shapeless(0.3), GB10)) == [unknown]
    assert findings(shapeless(0.6), "lab", beside=beside) == []


ADD = "python -m tests.recipes.add_model"
OF_SPARKS = [recipe for recipe in map(load_recipe, recipe_names()) if recipe.hardware != ["lab"]]
RECIPE = "qwen3.5-35b"
NAMED = {checkpoint.repo for recipe in OF_SPARKS for checkpoint in recipe.checkpoints.values()}


def test_every_recipe_has_the_data_of_its_checkpoints_and_reads_all():
    lacking = {
        recipe.name
        for recipe in OF_SPARKS
        for checkpoint in recipe.checkpoints.values()
        if checkpoint_data(checkpoint.repo) is None
    }
    assert not lacking, f"run: {ADD} {' '.join(sorted(lacking))}"
    files = {path for path in MODELS.rglob("*") if path.is_file()}
    strange = files - {data_file(repo) for repo in NAMED}
    assert not strange, f"no recipe names them: {', '.join(map(str, strange))}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ("[]", "a.json: found []; expected"),
        ('{"size": "1", "source": "x", "config": {}}', 'size: found "1"; expected the bytes of'),
        ('{"size": 2000000000000000, "source": "x", "config": {}}', "size: found 2000000000000000"),
    ],
    ids=["cut", "deep", "list", "text", "large"],
)
def test_a_file_that_is_broken_is_named(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(known_checkpoints, "MODELS", tmp_path)
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "a.json").write_text(text)
    found = refusal(checkpoint_data, "owner/a")
    assert found.startswith(f"{tmp_path}/owner/a.json: ")
    assert said in found


def test_what_the_project_does_not_know_the_lock_of_the_site_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(known_checkpoints, "MODELS", tmp_path / "models")
    checkpoint = load_recipe(RECIPE).checkpoints["model"]
    locked = CheckpointLock(
        repo=checkpoint.repo,
        revision=checkpoint.revision,
        commit="1" * 40,
        files={
            "a.safetensors": LockedFile(size=70 * 10**9),
            "b.safetensors": LockedFile(size=2 * 10**9),
            "c.json": LockedFile(size=10**9),
        },
        shape=SHAPE,
    )
    lock = Lock(checkpoints={checkpoint_key(checkpoint): locked})
    write_lock(tmp_path / "inventory" / "sparks.lock.yaml", lock)
    assert sparkwright("recipes", "memory", RECIPE) == 0
    assert capsys.readouterr().out.startswith(
        f"# {RECIPE} on one Spark, gb10\nweights        65.55"
    )
