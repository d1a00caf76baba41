"""Combinations that are known not to work are refused, their nearest good ones are not; and which
published faults a recipe's vLLM has."""

from datetime import date
from pathlib import Path

import pytest

from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.rules import advisories, doubts, published_faults
from tests.commands import sparkwright
from tests.makers.recipe import loaded, problems

MTP = {"method": "mtp", "num_speculative_tokens": 2}
NESTED = {"text_config": {"rope_parameters": {"rope_type": "yarn"}}}
CACHED = {"enable-prefix-caching": True}


def served(repo: str) -> dict[str, object]:
    return {"model": {"repo": repo, "folder": "model"}}


QWEN = served("Qwen/Qwen3.5-35B-A3B")
OTHER = served("nvidia/Qwen3.5-122B-A10B-NVFP4")


SCALES = {"kv-cache-dtype": "fp8_e4m3", "calculate-kv-scales": True}


def test_a_rule_names_the_number_of_sparks_that_it_is_about(tmp_path: Path) -> None:
    changes = {"vllm": "0.18.0", "sparks": [1, 2], "checkpoints": QWEN}
    (problem,) = problems(tmp_path, **changes, by_sparks={2: {"args": SCALES}})
    assert problem.startswith("by_sparks.2.args.calculate-kv-scales: found")
    assert "37565" in problem
    # One that both numbers break is told once.
    assert len(problems(tmp_path, **changes, args=SCALES)) == 1


FP8 = {"kv-cache-dtype": "fp8"}


@pytest.mark.parametrize("repo", ["Qwen/Qwen3.5-35B-A3B-FP8", "ig1/Qwen3.5-35B-A3B-NVFP4"])
def test_an_fp8_kv_cache_that_sources_disagree_on_is_warned_of(tmp_path: Path, repo: str) -> None:
    recipe = loaded(tmp_path, checkpoints=served(repo), args=FP8)
    (warning,) = doubts(recipe)
    assert not warning.error
    assert repo in warning.found
    assert "54623" in warning.found
    assert "kv-cache-dtype in the replica's `trusts`" in warning.remedy
    assert [*doubts(recipe, ["trust-remote-code"])] == [warning]
    assert not [*doubts(recipe, ["kv-cache-dtype"])]


def test_our_own_are_warned_of_where_their_source_measured_it() -> None:
    warned = {name for name in recipe_names() if [*doubts(load_recipe(name))]}
    assert warned == {"qwen3.5-35b-sm121", "qwen3.5-35b-fp8-community"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"args": {"attention-backend": "FLASH_ATTN", "kv-cache-dtype": "fp8"}},
            'args.kv-cache-dtype: found "fp8"; expected it left out: attention-backend flash_attn',
        ),
        (
            {"checkpoints": QWEN, "args": {"hf-overrides": {"rope_parameters": {"factor": 4.0}}}},
            "expected rope_parameters inside text_config",
        ),
        (
            {"vllm": "0.28.0", "checkpoints": OTHER, "args": {"speculative-config": MTP}},
            "expected enable-prefix-caching: false or async-scheduling: false beside MTP",
        ),
        (
            {"vllm": "main", "judged_by": "0.20.2", "checkpoints": OTHER}
            | {"args": CACHED | {"speculative-config": {"method": "qwen3_next_mtp"}}},
            "args.speculative-config: found",
        ),
    ],
)
def test_what_fails_in_silence_is_refused(
    tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    (problem,) = problems(tmp_path, **changes)
    assert expected in problem


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoints": QWEN, "args": FP8, "vllm": "0.18.0"},
        {"checkpoints": QWEN, "args": SCALES, "vllm": "0.19.0"},
        {"checkpoints": QWEN, "args": {"calculate-kv-scales": True}, "vllm": "0.18.0"},
        {"checkpoints": served("owner/model"), "args": SCALES, "vllm": "0.18.0"},
        {"args": {"attention-backend": "flashinfer", "kv-cache-dtype": "fp8"}},
        {"checkpoints": QWEN, "args": {"hf-overrides": NESTED}},
        {"checkpoints": OTHER, "args": {"speculative-config": MTP, "async-scheduling": False}},
        {"checkpoints": OTHER, "args": {"speculative-config": MTP, "enable-prefix-caching": False}},
        {"checkpoints": OTHER, "args": {"speculative-config": MTP}}
        | {"env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}},
        {"checkpoints": OTHER, "args": {"speculative-config": {"method": "dflash"}}},
        # Before 0.28 vLLM caches no prefixes of such a model unless it is told to.
        {"checkpoints": OTHER, "args": {"speculative-config": MTP}, "vllm": "0.27.1"},
        {"checkpoints": OTHER, "args": {"speculative-config": MTP}, "vllm": "main of today"},
        {"checkpoints": served("owner/model"), "args": {"speculative-config": MTP}},
    ],
)
def test_what_differs_in_what_matters_passes(tmp_path: Path, changes: dict[str, object]) -> None:
    loaded(tmp_path, **{"vllm": "0.28.0", **changes})


DRAFTER = {"repo": "z-lab/Qwen3.6-35B-A3B-DFlash", "folder": "drafter"}


@pytest.mark.parametrize("since", [None, date(2026, 4, 18)])
def test_an_old_copy_of_the_drafter_must_be_refused(tmp_path: Path, since: date | None) -> None:
    drafter = DRAFTER | ({"not_before": since} if since else {})
    (problem,) = problems(tmp_path, checkpoints={**OTHER, "drafter": drafter})
    assert problem.startswith(
        f"checkpoints.drafter.not_before: found {since or 'nothing'}; "
        "expected 2026-04-19 or later: older ones crash"
    )
    newer = {**DRAFTER, "not_before": date(2026, 4, 19)}
    loaded(tmp_path, checkpoints={**OTHER, "drafter": newer})


OLD = load_recipe("qwen3.5-35b-nvfp4-rtx-5090")
N, TRUST = "GHSA-3mwp-wvh9-7528", "GHSA-7972-pg2x-xr59"


@pytest.mark.parametrize(
    ("vllm", "known"),
    [
        ("0.17.0", {N, TRUST}),
        ("0.18.0", {N}),
        ("0.19.0", set()),
        # Builds may be of before the release that they are nearest to.
        ("main of 2026-03-20 (about 0.18.0)", {N, TRUST}),
        ("main of 2026-03-31 (0.18.3.dev17)", {N}),
        ("its image's own", set()),
    ],
)
def test_each_release_has_faults_of_its_own(vllm: str, known: set[str]) -> None:
    told = published_faults(OLD.model_copy(update={"vllm": vllm})) or ""
    assert {each for each in (N, TRUST) if each in told} == known


def test_a_newer_release_is_named_and_the_printed_command_says_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = published_faults(OLD)
    assert told
    assert told.startswith("recipe qwen3.5-35b-nvfp4-rtx-5090 has vLLM 0.18.0, of which faults")
    assert "0.24.0 or later" in told
    assert published_faults(OLD.model_copy(update={"vllm": "0.24.0"})) is None
    assert sparkwright("recipes", "command", OLD.name) == 0
    assert f"\n# {told}\n" in capsys.readouterr().out


def test_the_page_has_all_advisories() -> None:
    page = (Path(__file__).parents[4] / "docs/recipes.md").read_text()
    for each in advisories():
        assert f"| `{each['id']}` | {each['fixed']} | {each['fault']} |" in page
