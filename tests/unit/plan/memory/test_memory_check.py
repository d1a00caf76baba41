"""What the memory plan finds, and that its remedies do."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from sparkwright.common.errors import Finding
from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory import known_checkpoints
from sparkwright.plan.memory.check import judge
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import Load, MemoryPlan, Weights, plan_memory
from tests.makers.memory import BF16, CARD, MILLION, MTP, findings, load, planned
from tests.makers.models import changed
from tests.makers.preflight import FIT as SURVEY

# The others have an architecture that cannot be planned; test_memory says if not.
PLANNED = [name for name in recipe_names() if not load(name).shapeless]


def _said(plan: MemoryPlan) -> list[str]:
    return [str(finding) for finding in judge(plan)]


def test_every_recipe_fits_where_it_is_to_run():
    for name in PLANNED:
        recipe = load_recipe(name)
        for sparks in recipe.sparks:
            for hardware in recipe.hardware:
                survey = changed(SURVEY, memory=int(HARDWARE[hardware].total_gib * GIB))
                found = findings(load(name, sparks=sparks), hardware, survey)
                assert not [str(each) for each in found if each.error], (name, sparks)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            planned(BF16, gpu_memory_utilization=0.95),
            "error: gpu-memory-utilization 0.95 leaves 6.1 GiB to the host…. Set "
            "gpu-memory-utilization to at most 0.86",
        ),
        (
            planned(MTP, "0.19.1", gpu_memory_utilization=0.90),
            "warning: gpu-memory-utilization 0.9 leaves 11.9 GiB to the host…",
        ),
        # Two Sparks need more.
        (
            planned(MTP, sparks=2, gpu_memory_utilization=0.80),
            "error: gpu-memory-utilization 0.8 leaves 24.3 GiB to the host, 6.9…at most 0.77",
        ),
        # A card's memory is not the host's.
        (
            planned(CARD, "0.19.1", kv_cache_memory_bytes="5G"),
            "error: kv-cache-memory-bytes 5120M takes 32.3 GiB of 31.4 GiB. Set "
            "kv-cache-memory-bytes to at most 4144M",
        ),
        # A length that an older vLLM does not shorten.
        (
            planned(CARD, "0.18.0"),
            "warning: max-model-len auto stays at 262144 with this vLLM…. Set max-model-len to at "
            "most 77824",
        ),
        (
            planned(MTP, gpu_memory_utilization=0.70, max_model_len=MILLION),
            "error: max-model-len 1048576 needs 13.7 GiB of KV cache, 5.9 GiB remain. Set "
            "max-model-len to at most 421888, or gpu-memory-utilization to at least 0.77",
        ),
        (
            planned(BF16, max_num_seqs=16, kv_cache_memory_bytes="4G"),
            "error: max-model-len …or kv-cache-memory-bytes to at least 5260M",
        ),
        (
            changed(planned(MTP), weights=int(110 * GIB), kv_bytes=-10 * GIB),
            "error: …choose a smaller checkpoint, or serve it with two Sparks",
        ),
        # With drafts, the backend decides.
        (
            planned(MTP, max_num_seqs=512),
            "warning: max-num-seqs 512 exceeds the …vLLM may refuse to start. Set…",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_found(plan: MemoryPlan, expected: str):
    """`…` stands for any words."""
    (said,) = _said(plan)
    assert re.fullmatch(".*".join(map(re.escape, expected.split("…"))), said), said


def test_what_the_kernel_keeps_is_gone():
    kept = changed(SURVEY, kernel=changed(SURVEY.kernel, handover=int(9.3 * GIB)))
    assert findings(load(BF16)) == []
    (finding,) = findings(load(BF16), survey=kept)
    assert "24.3 GiB to the host (9.3 kept by its kernel), 8.1 GiB" in finding.found


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max-num-seqs", 10**12),
        ("max-num-seqs", 40_000),
        ("max-num-batched-tokens", 10**8),
        ("max-num-batched-tokens", 2**40),
        ("max-cudagraph-capture-size", 10**6),
    ],
)
@pytest.mark.parametrize("recipe", [BF16, MTP, CARD])
def test_an_option_that_is_too_high_is_named_and_not_the_weights(
    recipe: str, option: str, value: int
):
    (said,) = _said(planned(recipe, **{option: value}))
    assert said.startswith(f"error: {option} {value} needs ")
    (lower,) = re.findall(rf"Set {option} to at most (\d+), or leave it out$", said)
    found = judge(planned(recipe, **{option: int(lower)}))
    assert not [str(each) for each in found if each.error]


def test_more_requests_than_blocks():
    """vLLM 0.26.0 on an H100 refused to start with 1,024 requests and 793 blocks."""
    many = {"max_num_seqs": 1024, "kv_cache_memory_bytes": "20G"}
    plan = planned(BF16, "0.26.0", **many)
    (said,) = _said(plan)
    assert said.startswith(
        f"error: max-num-seqs 1024 exceeds the {plan.blocks} KV cache blocks; with CUDA "
        "graphs each request needs one. vLLM refuses to start. Set max-num-seqs to at most "
        f"{plan.blocks}, or kv-cache-memory-bytes to at least "
    )
    # Without graphs of whole steps, and before 0.20.2, none needs a block.
    pieces = {"compilation_config": {"cudagraph_mode": "PIECEWISE"}}
    assert _said(planned(BF16, "0.26.0", **many, enforce_eager=True)) == []
    assert _said(planned(BF16, "0.26.0", **many, **pieces)) == []
    assert _said(planned(BF16, "0.19.1", **many)) == []


def test_near_the_planned_number_only_vllm_knows():
    blocks = planned(BF16, max_num_seqs=1024, gpu_memory_utilization=0.7).blocks
    assert blocks < 1024
    for requests, kind, may in (
        (blocks + 60, "warning", "may refuse"),
        (2 * blocks, "error", "refuses"),
    ):
        (said,) = _said(planned(BF16, max_num_seqs=requests, gpu_memory_utilization=0.7))
        assert said.startswith(f"{kind}: max-num-seqs {requests} exceeds the ")
        assert f"vLLM {may} to start" in said


def test_what_cannot_be_planned():
    """An older lock has no shape; an image that names no release is planned as the newest."""
    weights = Weights("Qwen/Qwen3.5-35B-A3B", 72 * GIB, None)
    (finding,) = findings(Load(load_recipe(BF16), 1, {"model": weights}))
    assert not finding.error
    assert "Qwen/Qwen3.5-35B-A3B" in finding.found
    assert "sparkwright lock --refresh" in finding.remedy
    unknown = load_recipe("qwen3.6-35b-nvidia").model_copy(update={"vllm": "its image's own"})
    assert findings(nominal_load(unknown, 1)) == []
    # The lab is not judged.
    assert findings(Load(load_recipe("lab-tiny"), 1, {"model": weights}), "lab") == []


_OPTION = re.compile(r"([a-z-]+) to (?:at most |at least )?([0-9]+(?:\.[0-9]+)?M?)")
_SHARES: tuple[Any, ...] = tuple(step / 100 for step in range(20, 100, 6))
_SIZES: tuple[Any, ...] = ("10M", "1G", "5G", "20G", "50G", "90G", "200G")
_LENGTHS: tuple[dict[str, Any], ...] = (
    {},
    {"max-model-len": "auto"},
    {"max-model-len": MILLION},
    {"max-model-len": 4 * MILLION, "max-num-seqs": 512},
)


@pytest.mark.parametrize("name", PLANNED)
def test_a_remedy_leaves_no_error(name: str):
    """Whatever the options are: each way that an error names is taken, and planned again."""
    recipe = load_recipe(name)
    classes = {*recipe.hardware, *({"gb10-64gb"} if "gb10" in recipe.hardware else ())}
    for sparks in recipe.sparks:
        base = recipe.for_sparks(sparks)
        for hardware in classes:
            for options in _changed():
                args = base.args | options
                for finding in _judged(base, args, sparks, hardware):
                    for way in finding.remedy.split(", or ") if finding.error else ():
                        taken = args | _taken(way)
                        if taken == args:
                            assert "It does not fit" in finding.remedy
                            continue
                        again = _judged(base, taken, sparks, hardware)
                        assert not [each for each in again if each.error], (options, finding)


def _changed() -> Iterator[dict[str, Any]]:
    for length in _LENGTHS:
        for share in _SHARES:
            yield {"gpu-memory-utilization": share, "kv-cache-memory-bytes": None, **length}
        for size in _SIZES:
            yield {"kv-cache-memory-bytes": size, **length}


def _taken(way: str) -> dict[str, Any]:
    return {
        name: float(value) if "." in value else int(value) if value.isdigit() else value
        for name, value in _OPTION.findall(way)
    }


def _judged(base: Recipe, args: dict[str, Any], sparks: int, hardware: str) -> Iterator[Finding]:
    given = {name: value for name, value in args.items() if value is not None}
    load = nominal_load(base.model_copy(update={"args": given}), sparks)
    return judge(plan_memory(load, HARDWARE[hardware]))


@pytest.mark.parametrize(
    ("recipe", "sparks", "args", "said"),
    [
        (BF16, 3, {}, "16 attention heads of Qwen/Qwen3.5-35B-A3B do not divide by 3 (tensor"),
        (BF16, 3, {"pipeline_parallel_size": 3}, "40 layers of Qwen/Qwen3.5-35B-A3B do not divide"),
        (MTP, 3, {"pipeline_parallel_size": 3}, None),
        # Both of its key-value heads are on four each.
        (BF16, 8, {}, None),
        (BF16, 8, {"data_parallel_size": 2}, "memory use is unknown: 2 copies have no plan"),
        (CARD, 3, {"data_parallel_size": 3}, "512 numbers inside an expert of"),
        (CARD, 3, {"data_parallel_size": 3, "enable_expert_parallel": True}, "256 experts of"),
    ],
)
def test_what_does_not_divide_is_said_with_the_numbers(
    recipe: str, sparks: int, args: dict[str, Any], said: str | None
) -> None:
    found = findings(load(recipe, sparks=sparks, **args))
    assert [str(each) for each in found if said and said in each.found] or (said is None)
    assert said or not [each for each in found if "divide" in each.found]


def test_a_stage_has_a_part_of_the_layers_and_a_tensor_a_part_of_each() -> None:
    whole, stages = (planned(MTP, sparks=1), planned(MTP, sparks=4, pipeline_parallel_size=2))
    both = planned(MTP, sparks=4)
    assert stages.weights == both.weights == whole.weights // 4
    # A block of a stage has half of the layers, whose heads are halved as well.
    assert stages.flags.tensor_parallel == 2
    assert stages.head_room < whole.total - stages.engine
    layers = [plan.cache.pool / plan.cache.page for plan in (whole, stages)]
    assert layers[1] < layers[0]


@pytest.mark.parametrize(
    ("copies", "said", "fits"),
    [
        (4, "warning: memory use is unknown: 4 copies have no plan", True),
        (3, "error: 512 numbers inside an expert of nvidia/Qwen3.6-35B-A3B-NVFP4 do not", False),
    ],
)
def test_copies_are_checked_without_a_plan(
    monkeypatch: pytest.MonkeyPatch, copies: int, said: str, fits: bool
) -> None:
    recipe = load_recipe("qwen3.6-35b-nvidia").for_sparks(1)
    changes = {"sparks": [copies], "args": recipe.args | {"data-parallel-size": copies}}
    monkeypatch.setattr(
        known_checkpoints, "load_recipe", lambda _: recipe.model_copy(update=changes)
    )
    head, line = known_checkpoints.show("x")[0].splitlines()
    assert head == f"# {recipe.name} on each of {copies} Sparks, gb10"
    assert line.startswith(said)
    assert known_checkpoints.show("x")[1] is fits
