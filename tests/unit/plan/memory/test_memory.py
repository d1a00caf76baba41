"""The memory plan: beside published figures, and what it finds."""

from dataclasses import replace
from pathlib import Path

import pytest

from sparkwright.common.hardware import GIB
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.machine.preflight.deploy import preflight
from sparkwright.plan.memory.check import LEAST
from sparkwright.plan.memory.check import WANTED as WANTED_FREE
from sparkwright.plan.memory.flags import flags
from sparkwright.plan.memory.known_checkpoints import checkpoint_data, nominal_load
from sparkwright.plan.memory.plan import Weights, load_of
from sparkwright.plan.release.lock import CheckpointLock, Lock, LockedFile, checkpoint_key
from tests.commands import sparkwright
from tests.makers.memory import BF16, CARD, MTP, PAIR, planned
from tests.makers.preflight import SPARK, WANTED
from tests.unit import gpu_memory
from tests.unit.driven import fake_host
from tests.unit.seed_memory import rows

DOCS = Path(__file__).parents[4] / "docs" / "memory.md"


def test_the_docs_say_how_many_published_figures_are_met():
    free = [row for row in rows() if not row.fitted]
    near = sum(abs(row.plan / row.theirs - 1) < 0.05 for row in free)
    assert (len(free), near) == (28, 20)
    stated = f"Of {len(free)} published figures from which no constant was chosen, {near} are met"
    assert stated in DOCS.read_text()


def test_the_docs_have_the_limits_of_the_check():
    for limits in (LEAST, WANTED_FREE):
        assert f"less than {limits[1]} GiB stay free (two: {limits[2]})" in DOCS.read_text()


def test_a_real_gpu_is_met_though_no_constant_was_chosen_by_it():
    """Weights and layout are; what runs beside them is planned too large, on the safe side."""
    for row in gpu_memory.rows():
        off = row.plan / row.theirs - 1
        if row.figure.startswith(("steps", "graphs")):
            assert off > 0, str(row)
        elif row.figure == "KV cache, GiB":
            assert -0.05 < off < 0, str(row)
        else:
            # The log rounds the KV cache to 0.01 GiB or a block.
            assert abs(off) < 0.002, str(row)


def test_the_figures_that_vllm_computed_are_met_exactly():
    exact = [row for row in rows() if "GiB, tokens" in row.figure]
    assert len(exact) == 5
    assert all(row.plan == row.theirs for row in exact)


class TestFlags:
    @pytest.mark.parametrize(
        ("vllm", "share", "in_share", "caching"),
        [
            ("0.19.1", 0.9, False, False),
            ("0.20.2", 0.92, True, False),
            ("0.27.0", 0.92, True, False),
            ("0.28.0", 0.92, True, True),
        ],
    )
    def test_defaults_follow_the_release(
        self, vllm: str, share: float, in_share: bool, caching: bool
    ):
        plan = planned(BF16, vllm, gpu_memory_utilization=None, enable_prefix_caching=None)
        assert (plan.flags.utilization, plan.flags.prefix_caching) == (share, caching)
        assert plan.flags.graphs_in_share is in_share

    def test_defaults_follow_the_memory_the_checkpoint_and_the_environment(self):
        assert planned(CARD).flags.release == (0, 18, 0)
        assert planned(CARD).flags.graphs_in_share
        # A checkpoint with scales has an fp8 cache.
        assert planned("qwen3.6-35b-nvidia", kv_cache_dtype=None).flags.number_bytes == 1
        assert planned(BF16).flags.number_bytes == 2
        assert planned(BF16, enforce_eager=True).graphs == 0
        recipe = load_recipe("qwen3.5-35b-fp8-community").model_copy(update={"vllm": "0.28.0"})
        shape = checkpoint_data("Qwen/Qwen3.5-35B-A3B").shape
        assert flags(recipe, shape, 121 * GIB, sparks=1).sequences == 1024
        assert flags(recipe, shape, 31 * GIB, sparks=1).sequences == 256


class TestWeights:
    def test_fp8_as_they_load_halves_what_is_no_embedding(self):
        whole, half = planned(BF16), planned(BF16, quantization="fp8")
        assert whole.weights / GIB == pytest.approx(65.5, abs=0.1)
        assert half.weights / GIB == pytest.approx(34.1, abs=0.1)

    def test_a_table_of_ngrams_stays_on_the_disk_where_the_recipe_says_so(self):
        alone, pair = planned("qwen3.8-flash-next-b12x"), planned(PAIR, sparks=2)
        # 73.97 in eugr/spark-vllm-docker, 388, with what vLLM keeps beside the weights.
        assert alone.weights / GIB == pytest.approx(71.75, abs=0.01)
        assert pair.weights / GIB == pytest.approx(123.62 / 2, abs=0.01)

    def test_its_kv_cache_holds_what_others_logged(self):
        plan = planned("qwen3.8-flash-next-b12x", kv_cache_memory_bytes="14G")
        # 3.79 (ursuciprian/qwen3.8-flash-next-1x-dgx-spark), with smaller records of the states.
        assert plan.concurrency == pytest.approx(3.79, rel=0.1)

    @pytest.mark.parametrize(
        ("repo", "size"),
        [
            # 16 files of 1,800,011,248 bytes, and 47.68 GiB in the header of one.
            ("local-inference-lab/Qwen3.8-Flash-Next-NVFP4", 16 * 1_800_011_248),
            ("nvidia/Qwen3.8-Flash-Next-NVFP4", 47.68 * GIB),
        ],
    )
    def test_the_table_has_the_size_of_its_files(self, repo, size):
        assert checkpoint_data(repo).shape.table_bytes == pytest.approx(size, rel=1e-4)

    def test_the_mtp_head_is_loaded_where_it_drafts(self):
        draft = {"method": "mtp", "num_speculative_tokens": 1}
        more = planned(BF16, speculative_config=draft).weights - planned(BF16).weights
        assert more == 2 * checkpoint_data("Qwen/Qwen3.5-35B-A3B").shape.mtp_parameters
        draft = '{"method": "mtp", "num_speculative_tokens": 3}'
        assert planned(BF16, speculative_config=draft).flags.drafted == 3

    def test_a_drafter_has_its_own(self):
        plan = planned("qwen3.6-35b-nvfp4-dflash")
        assert plan.drafter == 905_000_000
        assert plan.cache.groups == 7
        # Two Sparks share it, and the weights.
        assert planned("qwen3.6-35b-nvfp4-dflash", sparks=2).drafter == 905_000_000 // 2
        assert planned(MTP, sparks=2).weights == planned(MTP).weights // 2


def test_a_lock_says_how_large_it_is():
    recipe = load_recipe(BF16)
    checkpoint = recipe.checkpoints["model"]
    shape = checkpoint_data(checkpoint.repo).shape
    files = {
        "a.safetensors": LockedFile(size=7),
        "b.safetensors": LockedFile(size=5),
        "c.json": LockedFile(size=1),
    }
    locked = CheckpointLock(
        repo=checkpoint.repo, revision="main", commit="1" * 40, files=files, shape=shape
    )
    lock = Lock(checkpoints={checkpoint_key(checkpoint): locked})
    assert load_of(recipe, lock, 1).checkpoints["model"] == Weights(checkpoint.repo, 12, shape)


@pytest.mark.parametrize(("share", "fits"), [(0.80, True), (0.95, False)])
def test_the_preflight_refuses_what_does_not_fit(share: float, fits: bool):
    recipe = load_recipe(BF16)
    changed = recipe.model_copy(update={"args": recipe.args | {"gpu-memory-utilization": share}})
    spark = fake_host(state={"machine": SPARK}, spark="spark1")
    # The clock of the captured survey is years behind.
    wanted = replace(WANTED, clock_tolerance=10**10, load=nominal_load(changed, 1))
    done = spark.run(preflight, wanted=[wanted])
    assert done.did_succeed() is fits
    refused = [text for text in spark.scripts() if "at most 0.86" in text]
    assert bool(refused) is not fits


class TestReport:
    def test_a_recipe(self, capsys: pytest.CaptureFixture[str]):
        assert sparkwright("recipes", "memory", MTP, "--sparks", "2") == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f"# {MTP} on each of 2 Sparks, gb10\nweights        37.95 GiB\n")

    def test_of_several_machines_the_first_is_planned(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        several = {"hardware": ("gb10", "rtx-pro-6000")}
        recipe = load_recipe(BF16).model_copy(update=several)
        monkeypatch.setattr("sparkwright.plan.memory.report.load_recipe", lambda _: recipe)
        sparkwright("recipes", "memory", BF16)
        assert capsys.readouterr().out.startswith(f"# {BF16} on one Spark, gb10\n")

    def test_a_part_that_a_recipe_lacks_has_no_line(self, capsys: pytest.CaptureFixture[str]):
        sparkwright("recipes", "memory", BF16)
        assert "drafter" not in capsys.readouterr().out
        sparkwright("recipes", "memory", "qwen3.6-35b-nvfp4-dflash")
        assert "\ndrafter         0.84 GiB\n" in capsys.readouterr().out

    def test_what_does_not_fit(self, capsys: pytest.CaptureFixture[str]):
        assert sparkwright("recipes", "memory", MTP, "--hardware", "gb10-64gb") == 1
        assert "error: weights of 75.9 GiB" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["lab-tiny"], "--hardware: found lab; expected one of gb10"),
            ([BF16, "--sparks", "2"], "--sparks: found 2; expected 1"),
            (
                [BF16, "--locked"],
                f"{BF16}: found no size of Qwen/Qwen3.5-35B-A3B; expected it in "
                "inventory/sparks.lock.yaml: `sparkwright lock` records it once a replica serves",
            ),
        ],
    )
    def test_what_cannot_be(self, arguments, said, capsys: pytest.CaptureFixture[str]):
        assert sparkwright("recipes", "memory", *arguments) == 1
        assert said in capsys.readouterr().err
