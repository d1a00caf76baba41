"""The memory plan: beside the seeds' figures, and what it finds."""

from dataclasses import replace
from pathlib import Path

import pytest

from deploys.operations.preflight import preflight
from deploys.plan.hardware import HARDWARE
from deploys.plan.lock import CheckpointLock, File, Lock, checkpoint_key
from deploys.plan.memory import Load, MemoryPlan, Weights, load_of, plan_memory
from deploys.plan.memory_check import LEAST, judge, memory_findings
from deploys.plan.memory_check import WANTED as WANTED_FREE
from deploys.plan.memory_flags import GIB, flags, number
from deploys.plan.memory_report import main
from deploys.plan.nominal import nominal_load, shape_named
from deploys.plan.recipes import load_recipe, recipe_names
from deploys.plan.survey import parse_survey
from tests.unit.driven import fake_host
from tests.unit.seed_memory import HEADER, rows
from tests.unit.test_preflight import SPARK, WANTED

DOCS = Path(__file__).parents[2] / "docs" / "memory.md"
SURVEY = parse_survey(SPARK.splitlines())
BF16, MTP = "qwen3.5-35b", "qwen3.5-122b-nvfp4-mtp"
CARD = "qwen3.5-35b-nvfp4-rtx-5090"
MILLION = 1_048_576


def planned(recipe: str, vllm: str | None = None, sparks: int = 1, **args: object) -> MemoryPlan:
    """Plan a recipe with other options, by a vLLM of another version."""
    base = load_recipe(recipe).for_sparks(sparks)
    given = {name.replace("_", "-"): value for name, value in args.items()}
    merged = {name: value for name, value in (base.args | given).items() if value is not None}
    changed = base.model_copy(update={"args": merged, "judged_by": vllm or base.judge})
    hardware = HARDWARE[base.hardware[0]]
    total = int(hardware.total_gib * GIB)
    return plan_memory(nominal_load(changed, sparks), total, hardware.unified)


def test_the_docs_have_the_figures_of_the_plan():
    table = "\n".join([HEADER, *map(str, rows())])
    assert table in DOCS.read_text()


def test_the_docs_have_the_limits_of_the_check():
    for limits in (LEAST, WANTED_FREE):
        assert f"less than {limits[1]} GiB stay free (two: {limits[2]})" in DOCS.read_text()


def test_a_real_gpu_is_met_though_no_constant_was_chosen_by_it():
    """Its log rounds the KV cache to 0.1 GiB; what a step takes is the plan's guess."""
    off = {row.figure: abs(row.plan / row.theirs - 1) for row in rows() if row.source == "H200"}
    assert len(off) == 10
    assert all(error < 0.05 for error in off.values()), off
    assert all(error < 0.002 for figure, error in off.items() if "KV" not in figure), off


def test_the_figures_that_vllm_computed_are_met_exactly():
    logged = [row for row in rows() if "GiB, tokens" in row.figure]
    exact = [row for row in logged if row.source != "H200"]
    assert len(exact) == 5
    assert all(row.plan == row.theirs for row in exact)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("auto", -1), (-1, -1), (4096, 4096), ("256k", 256_000), ("256K", 262_144)),
        *(("1m", 10**6), ("20600M", 20600 * 2**20), ("1.5k", 1500), ("40g", 40 * 10**9)),
    ],
)
def test_numbers_are_read_as_vllm_does(text: object, value: int):
    assert number(text) == value


class TestFlags:
    @pytest.mark.parametrize(
        ("vllm", "share", "caching"), [("0.19.1", 0.9, False), ("0.28.0", 0.92, True)]
    )
    def test_defaults_follow_the_release(self, vllm: str, share: float, caching: bool):
        plan = planned(BF16, vllm, gpu_memory_utilization=None, enable_prefix_caching=None)
        assert (plan.flags.utilization, plan.flags.prefix_caching) == (share, caching)
        assert plan.flags.graphs_in_share is caching

    def test_defaults_follow_the_memory(self):
        recipe = load_recipe(BF16)
        shape = shape_named("Qwen/Qwen3.5-35B-A3B")
        assert flags(recipe, shape, 121 * GIB).sequences == 1024
        assert flags(recipe, shape, 31 * GIB).sequences == 256

    def test_the_environment_decides_on_graphs(self):
        assert planned(CARD).flags.release == (0, 18, 0)
        assert planned(CARD).flags.graphs_in_share

    def test_a_checkpoint_with_scales_has_an_fp8_cache(self):
        assert planned("qwen3.6-35b-nvidia", kv_cache_dtype=None).flags.number_bytes == 1
        assert planned(BF16).flags.number_bytes == 2

    def test_eager_makes_no_graphs(self):
        assert planned(BF16, enforce_eager=True).graphs == 0


class TestWeights:
    def test_fp8_as_they_load_halves_what_is_no_embedding(self):
        whole, half = planned(BF16), planned(BF16, quantization="fp8")
        assert whole.weights / GIB == pytest.approx(65.5, abs=0.1)
        assert half.weights / GIB == pytest.approx(34.1, abs=0.1)

    def test_two_sparks_share_them(self):
        assert planned(MTP, sparks=2).weights == planned(MTP).weights // 2

    def test_the_mtp_head_is_loaded_where_it_drafts(self):
        draft = {"method": "mtp", "num_speculative_tokens": 1}
        more = planned(BF16, speculative_config=draft).weights - planned(BF16).weights
        assert more == 2 * shape_named("Qwen/Qwen3.5-35B-A3B").mtp_parameters

    def test_the_mtp_head_may_be_asked_for_in_json(self):
        draft = '{"method": "mtp", "num_speculative_tokens": 3}'
        assert planned(BF16, speculative_config=draft).flags.drafted == 3

    def test_a_drafter_has_its_own(self):
        plan = planned("qwen3.6-35b-nvfp4-dflash")
        assert plan.drafter == 905_000_000
        assert plan.cache.groups == 7


def _said(plan: MemoryPlan) -> list[str]:
    return [str(finding) for finding in judge(plan)]


class TestFindings:
    def test_every_recipe_fits_where_it_is_to_run(self):
        for name in recipe_names():
            recipe = load_recipe(name)
            for sparks in recipe.sparks:
                loads = nominal_load(recipe.for_sparks(sparks), sparks)
                for hardware in (HARDWARE[key] for key in recipe.hardware):
                    survey = replace(SURVEY, memory=int(hardware.total_gib * GIB))
                    found = memory_findings(loads, hardware, survey)
                    assert not [str(each) for each in found if each.error], (name, sparks)

    def test_too_little_for_the_host(self):
        (said,) = _said(planned(BF16, gpu_memory_utilization=0.95))
        assert said.startswith("error: gpu-memory-utilization 0.95 leaves 6.1 GiB to the host")
        assert said.endswith("Set gpu-memory-utilization to at most 0.86")

    def test_little_for_the_host(self):
        (said,) = _said(planned(MTP, "0.19.1", gpu_memory_utilization=0.90))
        assert said.startswith("warning: gpu-memory-utilization 0.9 leaves 11.9 GiB to the host")

    def test_two_sparks_need_more(self):
        (said,) = _said(planned(MTP, sparks=2, gpu_memory_utilization=0.80))
        assert said.startswith("error: gpu-memory-utilization 0.8 leaves 24.3 GiB to the host, 6.9")
        assert said.endswith("at most 0.77")

    def test_a_cards_memory_is_not_the_hosts(self):
        assert _said(planned(CARD, gpu_memory_utilization=0.956)) == []

    def test_a_context_that_is_too_long(self):
        (said,) = _said(planned(MTP, gpu_memory_utilization=0.70, max_model_len=MILLION))
        assert said == (
            "error: max-model-len 1048576 needs 13.7 GiB of KV cache, 5.8 GiB remain. Set "
            "max-model-len to at most 417792, or gpu-memory-utilization to at least 0.77"
        )
        fits = planned(MTP, gpu_memory_utilization=0.70, max_model_len=417_792)
        assert _said(fits) == []

    def test_the_size_of_the_cache_is_told(self):
        (said,) = _said(planned(BF16, max_num_seqs=16, kv_cache_memory_bytes="4G"))
        assert said.endswith("or kv-cache-memory-bytes to at least 5260M")
        assert _said(planned(BF16, max_num_seqs=16, kv_cache_memory_bytes="5260M")) == []

    def test_weights_beyond_the_share(self):
        (said,) = _said(planned(BF16, max_num_seqs=16, gpu_memory_utilization=0.5))
        assert said.startswith("error: weights of 65.5 GiB")
        share = float(said.rpartition(" ")[2])
        assert _said(planned(BF16, max_num_seqs=16, gpu_memory_utilization=share)) == []

    def test_weights_beyond_the_machine(self):
        load = nominal_load(load_recipe(MTP), 1)
        small = replace(SURVEY, memory=58 * GIB)
        (finding,) = memory_findings(load, HARDWARE["gb10-64gb"], small)
        assert finding.error
        assert finding.remedy.startswith("It does not fit into 58.0 GiB: choose a smaller")

    def test_more_requests_than_blocks(self):
        (said,) = _said(planned(MTP, max_num_seqs=512))
        assert said.startswith("warning: max-num-seqs 512 is more than the ")

    def test_a_lock_of_before_has_no_shape(self):
        recipe = load_recipe(BF16)
        load = Load(recipe, 1, {"model": Weights("Qwen/Qwen3.5-35B-A3B", 72 * GIB, None)})
        (finding,) = memory_findings(load, HARDWARE["gb10"], SURVEY)
        assert not finding.error
        assert "Qwen/Qwen3.5-35B-A3B" in finding.found
        assert "python -m deploys.lock --refresh" in finding.remedy

    def test_an_option_that_is_no_number(self):
        recipe = load_recipe(BF16)
        wrong = recipe.model_copy(update={"args": {"max-model-len": "long"}})
        (finding,) = memory_findings(nominal_load(wrong, 1), HARDWARE["gb10"], SURVEY)
        assert finding.error
        assert "'long'" in finding.found

    def test_the_lab_is_not_judged(self):
        load = Load(load_recipe("lab-tiny"), 1, {"model": Weights("tiny", 0, None)})
        assert memory_findings(load, HARDWARE["lab"], SURVEY) == []


def test_a_lock_says_how_large_it_is():
    recipe = load_recipe(BF16)
    checkpoint = recipe.checkpoints["model"]
    shape = shape_named(checkpoint.repo)
    files = {"a.safetensors": File(size=7), "b.safetensors": File(size=5), "c.json": File(size=1)}
    locked = CheckpointLock(
        repo=checkpoint.repo, revision="main", commit="1" * 40, files=files, shape=shape
    )
    lock = Lock(checkpoints={checkpoint_key(checkpoint): locked})
    assert load_of(recipe, lock, 1).checkpoints["model"] == Weights(checkpoint.repo, 12, shape)


@pytest.mark.parametrize(("share", "fits"), [(0.80, True), (0.95, False)])
def test_the_preflight_refuses_what_does_not_fit(share: float, fits: bool):
    recipe = load_recipe(BF16)
    changed = recipe.model_copy(update={"args": recipe.args | {"gpu-memory-utilization": share}})
    spark = fake_host({"@@arch": SPARK}, spark="spark1")
    # The clock of the captured survey is years behind.
    wanted = replace(WANTED, clock_tolerance=10**10)
    look = {"root": "/opt/qwen36", "images": [], "folders": []}
    done = spark.run(preflight, wanted=wanted, load=nominal_load(changed, 1), **look)
    assert done.did_succeed() is fits
    refused = [text for text in spark.scripts() if "at most 0.86" in text]
    assert bool(refused) is not fits


class TestReport:
    def test_a_recipe(self, capsys: pytest.CaptureFixture[str]):
        assert main([MTP, "--sparks", "2"]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f"# {MTP} on each of 2 Sparks, gb10\nweights        37.95 GiB\n")

    def test_what_does_not_fit(self, capsys: pytest.CaptureFixture[str]):
        assert main([MTP, "--hardware", "gb10-64gb"]) == 1
        assert "error: weights of 75.9 GiB" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["lab-tiny"], "--hardware: found lab; expected one of gb10"),
            ([BF16, "--sparks", "2"], "--sparks: found 2; expected 1"),
            ([BF16, "--inventory", "/nowhere/sparks.yaml"], "found no shape in /nowhere"),
        ],
    )
    def test_what_cannot_be(self, arguments, said, capsys: pytest.CaptureFixture[str]):
        assert main(arguments) == 1
        assert said in capsys.readouterr().err
