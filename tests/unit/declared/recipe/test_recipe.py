"""Recipes: what they may say, and what is said about the rest."""

import re
from pathlib import Path

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sparkwright.common.errors import PlanError
from sparkwright.common.placed import folder_names
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.release.command import Ranks, serve_arguments
from sparkwright.run.spark import SparkTarget
from tests.makers.recipe import good, loaded, problems, put
from tests.makers.release import lock, release
from tests.makers.release import recipe as made


def test_a_recipe_has_its_files_name_and_what_nobody_says(tmp_path: Path) -> None:
    recipe = loaded(tmp_path)
    assert recipe.name == "try"
    assert recipe.checkpoints["model"].revision == "main"
    assert recipe.stop_timeout == 0
    # A stop waits for the drain.
    assert loaded(tmp_path, args={"shutdown-timeout": 60}).stop_timeout == 58


def test_a_name_that_is_none_comes_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"did you mean 'lab-tiny'\?"):
        load_recipe("labtiny")
    with pytest.raises(PlanError, match="found no such file"):
        load_recipe("../recipes/lab-tiny")
    for name in ("Try", "a_b", "-a"):
        put(tmp_path, good(), name)
        with pytest.raises(PlanError, match="expected a name of a-z"):
            load_recipe(str(tmp_path / f"{name}.yaml"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        *(
            ({"folder": folder}, "folder: found .*expected one folder name")
            for folder in (
                *("/etc", "../etc", "a/b", "..", ".", ".hidden", "", "a b", "a:b", "$(id)"),
                *("a;id", "a\nb", "-rf"),
            )
        ),
        *(
            ({"folder": folder}, "folder: found .*expected another folder than backups")
            for folder in (*folder_names(), "image", "image-build", "switch")
        ),
        *(
            ({"repo": repo}, "repo: found .*expected OWNER/NAME, as on the hub")
            for repo in ["model", "a/b/c", "../x", "a/..", "a/b;id", "owner/$(id)", "-a/b"]
        ),
    ],
)
def test_a_checkpoint_has_a_repository_and_a_folder_below_the_root(
    tmp_path: Path, changes: dict[str, str], expected: str
) -> None:
    checkpoint = {"repo": "owner/model", "folder": "f"} | changes
    (problem,) = problems(tmp_path, checkpoints={"model": checkpoint})
    assert re.match(rf"checkpoints\.model\.{expected}", problem)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("name", "x", 'name: found "x"; expected no such key'),
        ("descripton", "x", "did you mean 'description'?"),
        ("hardware", ["gb11"], "hardware: found gb11; did you mean 'gb10'? Expected one of gb10"),
        ("hardware", ["gb10", "rtx-5090"], "hardware: found gb10, rtx-5090; expected hardware cla"),
        ("sparks", [5], "sparks: found [5]; expected a list of 1 or 2 or 3 or 4 or 8, each once"),
        ("vllm", 0.33, "vllm: found 0.33; expected the vLLM version in the image, such as '0.33"),
        ("image", "example.org/vllm", "expected an image with a tag or digest"),
        ("image", "example.org/vllm:1 --privileged", "expected an image with a tag or digest"),
        ("checkpoints", {}, "checkpoints: found nothing; expected one named model"),
        (
            "checkpoints",
            {name: {"repo": "owner/model", "folder": "same"} for name in ("model", "drafter")},
            "checkpoints.drafter.folder: found same, which model uses; expected a folder of its",
        ),
        ("served_names", [], "served_names: found []; expected a list of the names"),
        ("served_names", ["a", "--port"], "served_names: found --port; expected each name once"),
        ("start_timeout", 0, "start_timeout: found 0; expected seconds until it must answer"),
        ("env", {"A": 1}, "env.A: found 1; expected text in quotes"),
        ("env", {"A": "x\nB=y"}, 'env.A: found "x\\nB=y"; expected printable text on one line'),
        ("env", {"A=B": "x"}, "expected the name of an environment variable"),
        ("args", {"api-key": "x"}, "args.api-key: found a secret's name; expected no secret"),
        ("args", {"port": 1}, "args.port: found it set; expected it left out"),
        ("args", {"--dtype": "auto"}, "did you mean 'dtype'? Expected a long option of vLLM"),
        ("args", {"max_model_len": 9}, "did you mean 'max-model-len'? Expected a long option"),
        ("args", {"dtype": None}, "args.dtype: found null; expected true, false, a number, text"),
        ("args", {"dtype": "--port"}, 'args.dtype: found "--port"; expected true, false, a number'),
        ("args", {"dtype": "a\0b"}, "expected true, false, a number"),
        ("args", {"dtype": float("nan")}, "args.dtype: found NaN; expected true, false, a number"),
        ("args", {"x": {"y": float("inf")}}, "args.x: found"),
        ("args", {"x": "${draftr}"}, "${draftr}, which is no checkpoint; did you mean 'drafter'?"),
        ("args", {"x": {"y": ["a${none}b"]}}, "args.x: found ${none}, which is no checkpoint;"),
        ("env", {"A": "${none}"}, "env.A: found ${none}, which is no checkpoint; expected"),
        ("by_sparks", {2: {}}, "by_sparks.2: found 2; expected 1, which `sparks` lists"),
        ("by_sparks", {1: None}, "by_sparks.1: found null; expected a mapping of Spark counts"),
        ("by_sparks", {1: {"env": {"HF_TOKEN": "x"}}}, "1.env.HF_TOKEN: found a secret's name"),
        ("args", {"seed": 10**26}, f"seed: found {10**26}; expected a number of at most 64 bits"),
        ("image", {"build": "a"}, "image.base: found nothing; expected the image that it is built"),
        ("image", {"build": "../a", "base": "a/b:1"}, 'image.build: found "../a"; expected a fold'),
        ("expected", {"shrt": {"tok_s": 1}}, "expected.shrt: found an unknown workload; did you m"),
        ("expected", {"short": {"toks": 1}}, "expected.short.toks: found an unknown figure; did"),
        ("expected", {"short": {"tok_s": "x"}}, 'expected.short.tok_s: found "x"; expected a map'),
        *(
            ("expected", {"short": {"tok_s": figure}}, "expected.short.tok_s: found")
            for figure in (-1.0, float("nan"), float("inf"))
        ),
        ("judged_by", "main", 'judged_by: found "main"; expected a release of vLLM'),
        # What would hide a start from the run that waits for it.
        ("env", {"VLLM_LOGGING_LEVEL": "error"}, 'set log_level = "WARNING" in the group data'),
        ("env", {"VLLM_CONFIGURE_LOGGING": "0"}, "env.VLLM_CONFIGURE_LOGGING: found 0; remove it"),
        ("args", {"uvicorn-log-level": "error"}, 'args.uvicorn-log-level: found "error"; remove'),
    ],
)
def test_a_value_that_cannot_be(tmp_path: Path, key: str, value: object, expected: str) -> None:
    (problem,) = problems(tmp_path, **{key: value})
    assert expected in problem


SCORES = {"answers": "scores", "args": {"runner": "pooling"}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"answers": "songs"}, 'answers: found "songs"; expected chat, embeddings, or scores (of'),
        (SCORES | {"args": {"runner": "generate"}}, 'args.runner: found "generate"; expected pool'),
        ({"args": {"runner": "pooling"}}, "answers: found chat with runner: pooling; expected emb"),
        (SCORES | {"sparks": [1, 2]}, "sparks: found [1, 2]; expected [1], as answers is scores"),
        ({"unjudged": ["max-model-len"]}, "unjudged: found it without judged_by; expected the rel"),
        (
            {"unjudged": ["max-modellen"], "judged_by": "0.33.0"},
            "unjudged: found max-modellen; did you mean 'max-model-len'? Expected one of VLLM_LOG",
        ),
    ],
)
def test_what_an_engine_answers_and_what_nobody_judges(
    tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    (problem,) = problems(tmp_path, **changes)
    assert problem.startswith(told)


def test_the_rerankers_prompt_is_that_of_its_card() -> None:
    """As transformers renders it for vLLM: in a sandbox, with an instruction or without."""
    template = load_recipe("qwen3-reranker-0.6b").args["chat-template"]
    messages = [
        {"role": "query", "content": "a question"},
        {"role": "document", "content": "a text"},
    ]
    expected = (
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        'and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
        "<|im_start|>user\n<Instruct>: {}\n<Query>: a question\n<Document>: a text<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    usual = "Given a web search query, retrieve relevant passages that answer the query"
    render = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    made = render.from_string(template)
    assert made.render(messages=messages) == expected.format(usual)
    assert made.render(messages=messages, instruction="Find it") == expected.format("Find it")


@pytest.mark.parametrize("variant", ["", "-1m", "-text", "-fp8"])
def test_no_variant_of_qwen35_35b_samples_with_flashinfer(variant: str) -> None:
    """github.com/AI-Guru/ai_services, 5afca52: in all four compose files, against endless loops."""
    env = load_recipe(f"qwen3.5-35b{variant}").env
    assert env["VLLM_USE_FLASHINFER_SAMPLER"] == "0"


def test_what_each_level_makes_of_an_engine() -> None:
    assert made().at_level("INFO") == made()
    assert made().at_level("DEBUG").env["VLLM_LOGGING_LEVEL"] == "DEBUG"
    quiet = made().at_level("WARNING")
    assert quiet.args["disable-uvicorn-access-log"] is True
    assert quiet.env["VLLM_LOG_STATS_INTERVAL"] == "3600"
    assert quiet.env.get("VLLM_LOGGING_LEVEL") == made().env.get("VLLM_LOGGING_LEVEL")
    assert release(quiet).id != release().id


def test_the_group_data_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkwright.run.spark.recipe_of", lambda name: made())
    data = {"recipe": "try", "ranks": ["a"], "rank": 0, "hardware": "lab", "log_level": "WARNING"}
    served = SparkTarget.of(data).release_by(lock())
    assert served
    files = served.files
    assert "VLLM_LOG_STATS_INTERVAL=3600\n" in files["engine.env"]
    assert "--disable-uvicorn-access-log" in files["run"]


@pytest.mark.parametrize(
    ("changes", "args", "sizes"),
    [
        ({}, {}, [1, 2, 4, 8, 16, 24, 32, 48, 64]),
        ({}, {"max-num-seqs": 1}, [1]),
        ({}, {"max-num-seqs": 20}, [1, 2, 4, 8, 16, 20]),
        # Whole requests with their drafts, and no more tokens than vLLM's own largest.
        ({}, {"max-num-seqs": 4, "spec-tokens": 2}, [3, 6, 12]),
        ({}, {"max-num-seqs": 128, "spec-tokens": 15}, [16, 32, 64, 128, 256, 384, 512]),
        ({}, {"max-num-seqs": 8, "max-num-batched-tokens": 4}, [1, 2, 4]),
        ({}, {"cudagraph-capture-sizes": [4, 2]}, [4, 2]),
        *[
            ({}, said, [])
            for said in (
                {"max-cudagraph-capture-size": 32},
                {"performance-mode": "balanced"},
                {"compilation-config": {"cudagraph-capture-sizes": [8]}},
                {"enforce-eager": True},
                {"max-num-seqs": None},
            )
        ],
        ({"answers": "embeddings"}, {}, []),
        ({"judged_by": None, "vllm": "a fork"}, {}, []),
    ],
)
def test_graphs_are_made_of_whole_requests_unless_the_recipe_says(
    changes: dict[str, object], args: dict[str, object], sizes: list[int]
) -> None:
    recipe = load_recipe("qwen3.5-35b")
    given = {name: each for name, each in (recipe.args | args).items() if each is not None}
    changed = recipe.model_copy(update={"args": given, **changes})
    assert changed.capture_sizes == sizes
    words = " ".join(serve_arguments(changed, Ranks()))
    rendered = f"--cudagraph-capture-sizes {' '.join(map(str, sizes))} --"
    assert (rendered in words) if sizes else ("cudagraph-capture-sizes " not in words)


def test_what_differs_with_a_number_of_sparks_replaces_the_rest(tmp_path: Path) -> None:
    base = {
        "sparks": [1, 2],
        "args": {"max-model-len": 4096, "speculative-config": {"method": "mtp", "tokens": 2}},
        "env": {"A": "1", "B": "1"},
    }
    own = {
        "args": {"speculative-config": {"method": "mtp"}, "shutdown-timeout": 60},
        "env": {"B": "2", "C": "${drafter}"},
        "start_timeout": 90,
    }
    recipe = loaded(tmp_path, **base, by_sparks={2: own})
    one, two = recipe.for_sparks(1), recipe.for_sparks(2)
    assert (one.args, one.env, one.start_timeout) == (base["args"], base["env"], 60)
    assert two.args == {
        "max-model-len": 4096,
        "speculative-config": {"method": "mtp"},
        "shutdown-timeout": 60,
    }
    assert two.env == {"A": "1", "B": "2", "C": "${drafter}"}
    assert (two.start_timeout, two.stop_timeout) == (90, 58)
    assert one.by_sparks == two.by_sparks == {}
    assert recipe.args == base["args"]
    same = loaded(tmp_path, sparks=[1, 2])
    assert same.for_sparks(1) == same.for_sparks(2) == same


def test_problems_of_all_numbers_come_together(tmp_path: Path) -> None:
    def wrong() -> dict[str, object]:
        return {"args": {"port": 1}, "env": {"A_KEY": "x"}}

    by_sparks = {count: wrong() for count in (1, 2, 3)}
    found = problems(tmp_path, sparks=[1, 2], by_sparks=by_sparks, **wrong())
    assert len(found) == 9
    listed = "expected 1 or 2, which `sparks` lists; null removes an inherited one"
    assert f"by_sparks.3: found 3; {listed}" in found


def test_stages_and_copies_divide_the_sparks_and_the_rest_share_layers(tmp_path: Path) -> None:
    by_sparks = {4: {"args": {"pipeline-parallel-size": 2}}, 8: {"args": {"data-parallel-size": 2}}}
    recipe = loaded(tmp_path, sparks=[1, 2, 4, 8], by_sparks=by_sparks)
    shares = [recipe.for_sparks(count).tensor_parallel(count) for count in recipe.sparks]
    assert shares == [1, 2, 2, 4]
    by_sparks[4]["args"]["data-parallel-size"] = 4
    (problem,) = problems(tmp_path, sparks=[4], by_sparks={4: by_sparks[4]})
    said = "args.pipeline-parallel-size: found 2 stages and 4 copies (data-parallel-size) with spar"
    assert problem.startswith(f"by_sparks.4.{said}ks: 4; expected")
    (problem,) = problems(tmp_path, sparks=[4], args={"data-parallel-size": 3})
    assert problem.startswith("args.data-parallel-size: found 1 stages and 3 copies")
