"""vLLM's options: one reading, which is vLLM's own, for everything that asks."""

import re
from pathlib import Path
from typing import Any

import pytest

import sparkwright
from sparkwright.declared.recipe.options import AUTO, Options, problems
from tests.makers.recipe import problems as loading

BATCHED = "max-num-batched-tokens"


# As human_readable_int of vLLM 0.32.0 reads them.
@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        *((65536, 65536), ("65536", 65536), ("64K", 65536), ("64k", 64000), ("1m", 10**6)),
        *(("1.5k", 1500), ("25.6k", 25600), ("1M", 2**20), ("2g", 2 * 10**9)),
        *(("2G", 2**31), ("1t", 10**12), ("1T", 2**40)),
    ],
)
def test_a_number_is_read_as_vllm_reads_it(value: object, tokens: int):
    assert Options.model_validate({BATCHED: value}).max_num_batched_tokens == tokens
    assert Options.model_validate({"max-model-len": value}).max_model_len == tokens
    assert Options.model_validate({"kv-cache-memory-bytes": value}).kv_cache_memory_bytes == tokens


@pytest.mark.parametrize("value", ["auto", "Auto", -1, "-1"])
def test_auto_is_a_length(value: object):
    assert Options.model_validate({"max-model-len": value}).max_model_len == AUTO
    assert [*problems({BATCHED: value})]


@pytest.mark.parametrize(
    "value", [65536.0, 1e5, "64 K", "64KB", "1.5K", "1.5", "", "many", True, 0, -5, ["64K"]]
)
def test_what_vllm_takes_for_no_number_is_refused(tmp_path: Path, value: object):
    (problem,) = problems({BATCHED: value})
    assert problem.startswith(f"{BATCHED}: found ")
    assert "expected a whole number above 0, which may end in k, m, g, t" in problem
    told = loading(tmp_path, args={BATCHED: value})
    assert any(each.startswith(f"args.{BATCHED}: found ") for each in told)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"max-num-seqs": "1K"}, 'max-num-seqs: found "1K"; expected a whole number above 0, in'),
        ({"max-model-len": 10**26}, "at most 1,099,511,627,776"),
        ({"max-num-seqs": "9" * 5000}, "a whole number above 0, in digits, at most 1,099,511,627"),
        ({"max-cudagraph-capture-size": 10**26}, "a whole number, in digits, at most 1,099,511"),
        (
            {"speculative-config": {"method": "mtp", "num_speculative_tokens": 10**26}},
            "expected num_speculative_tokens to be a whole number above 0, in digits, at most",
        ),
        ({"gpu-memory-utilization": 85}, "gpu-memory-utilization: found 85; expected a share"),
        ({"gpu-memory-utilization": "NaN"}, 'gpu-memory-utilization: found "NaN"; expected a s'),
        ({"enforce-eager": "true"}, 'enforce-eager: found "true"; expected true or false'),
        ({"speculative-config": "mtp"}, 'speculative-config: found "mtp"; expected a mapping'),
        (
            {"spec-tokens": 2, "speculative-config": {"num-speculative-tokens": 3}},
            "spec-tokens: is set here and as speculative-config's num_speculative_tokens",
        ),
        (
            {"no-enable-prefix-caching": True},
            "no-enable-prefix-caching: found it set to true; expected enable-prefix-caching: false",
        ),
        ({"shutdown-timeout": "1m"}, 'found "1m"; expected whole seconds, 0 to 400'),
    ],
)
def test_what_vllm_would_refuse_or_nobody_would_see(args: dict[str, Any], told: str):
    (problem,) = problems(args)
    assert told in problem


@pytest.mark.parametrize(
    "args",
    [
        {"speculative-config": {"method": "mtp", "num_speculative_tokens": 2}},
        {"speculative-config": '{"method": "mtp", "num-speculative-tokens": 2}'},
        {"spec-method": "mtp", "spec-tokens": 2},
    ],
    ids=["mapping", "JSON", "short"],
)
def test_drafts_are_seen_however_they_are_said(tmp_path: Path, args: dict[str, Any]):
    read = Options.model_validate(args)
    assert (read.mtp, read.drafted) == (True, 2)
    checkpoint = {"model": {"repo": "nvidia/Qwen3.5-122B-A10B-NVFP4", "folder": "model"}}
    (problem,) = loading(tmp_path, vllm="0.28.0", checkpoints=checkpoint, args=args)
    assert problem.startswith(f"args.{next(iter(args))}: found ")
    assert "expected enable-prefix-caching: false" in problem


@pytest.mark.parametrize(
    ("args", "graphs"),
    [
        ({}, "steps"),
        ({"enforce-eager": True}, "none"),
        ({"max-cudagraph-capture-size": 0}, "none"),
        ({"optimization-level": 0}, "none"),
        ({"optimization-level": 1}, "pieces"),
        ({"compilation-config": {"cudagraph_mode": "PIECEWISE"}}, "pieces"),
        ({"compilation-config": '{"cudagraph-mode": "full_decode_only"}'}, "steps"),
    ],
)
def test_what_cuda_graphs_hold(args: dict[str, Any], graphs: str):
    assert Options.model_validate(args).graphs == graphs


def test_nothing_else_reads_what_options_mean():
    """A second reading is how one option came to mean two things."""
    reads = re.compile(r"""\.args(\.get\(|\[)""")
    found = {
        path.name
        for path in Path(sparkwright.__file__).parent.rglob("*.py")
        if reads.search(path.read_text())
    }
    told = "these show what a recipe says; what it means options tells"
    assert found == {"rules.py", "check.py", "needed_files.py"}, told
