"""Recipes of NVIDIA's local-ai-inference-recipes."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.recipe.loader import load_recipe
from sparkwright.recipe.published.draft import NotForUs

ONE = """\
schema_version: 4
title: Model · DGX Spark · vLLM
hardware: dgx-spark
backend: vllm
backend_version: "0.28.0"
min_vidmem_gb: 128
status: optimized
validation: {tested_stack: {driver: "580.1"}}
limitations:
  - Short answers only.
checkpoint:
  target: https://huggingface.co/owner/Model-30B
runtime:
  image: vllm/vllm-openai:v0.28.0
  setup_command: |
    docker run --rm -it \\
      --gpus all \\
      -e HF_TOKEN=$HF_TOKEN \\
      -e VLLM_FLOAT32_MATMUL_PRECISION=high \\
      --entrypoint /bin/bash \\
      vllm/vllm-openai:v0.28.0
serve:
  command: |
    export VLLM_USE_V2_MODEL_RUNNER="1"  # why

    vllm serve owner/Model-30B \\
      --host 0.0.0.0 \\
      --port 8000 \\
      --max-model-len 262144 \\
      --speculative_config.method dspark \\
      --speculative_config.model owner/Draft
"""
PAIR = (
    ONE.replace("hardware: dgx-spark", "hardware: dgx-spark-2gpu")
    .replace("config.model owner/Draft\n", 'config.model owner/Draft \\\n      '
             '--tensor-parallel-size 2 \\\n      --nnodes 2 --node-rank 0 \\\n      '
             '--master-addr "$HEAD_IP"\n')
    + """\
  additional_commands:
    - id: worker
      command: |
        export VLLM_USE_V2_MODEL_RUNNER="1"
        vllm serve owner/Model-30B \\
          --max-model-len 262144 \\
          --speculative_config.method dspark \\
          --speculative_config.model owner/Draft --tensor-parallel-size 2 \\
          --node-rank 1 --headless
"""
)  # fmt: skip


@pytest.fixture
def put(tmp_path: Path):
    """Write a text, changed in places, where its repository has it; return its path."""

    def write(text, *changes):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "models/owner/model-30b/dgx-spark/linux/vllm/128gb/recipe.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


def test_one_spark(put):
    recipe = load_recipe(put(ONE))
    assert recipe.name == "model-30b-dgx-spark-128gb"
    assert (recipe.vllm, recipe.judged_by, recipe.sparks) == ("0.28.0", None, [1])
    assert recipe.hardware == ["gb10"]
    assert recipe.proven.startswith("By NVIDIA (status: optimized, tested with driver 580.1)")
    assert recipe.proven.endswith("Short answers only.")
    assert recipe.checkpoints["drafter"].repo == "owner/Draft"
    assert recipe.env == {"VLLM_FLOAT32_MATMUL_PRECISION": "high", "VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert recipe.args == {
        "max-model-len": 262144,
        "speculative-config": {"method": "dspark", "model": "${drafter}"},
    }
    small = load_recipe(put(ONE, ("min_vidmem_gb: 128", "min_vidmem_gb: 64")))
    assert small.hardware == ["gb10", "gb10-64gb"]


def test_what_was_measured_with_it(put):
    path = Path(put(ONE))
    workload = "{concurrency: 1, input_tokens: 8192}"
    path.with_name("performance.yaml").write_text(
        "schema_version: 1\nprofiles:\n- {workload: {concurrency: 8}}\n"
        f"- {{workload: {workload}, results: {{decode_tokens_per_second_mean: 28.41}}}}\n"
    )
    assert "580.1, 28 tokens/s after a prompt of 8,192 tokens);" in load_recipe(str(path)).proven
    path.with_name("performance.yaml").write_text("profiles: [x, {workload: 1}]")
    assert "tokens/s" not in load_recipe(str(path)).proven


def test_two_sparks(put):
    recipe = load_recipe(put(PAIR))
    assert recipe.sparks == [2]
    assert "master-addr" not in recipe.args


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("backend: vllm", "backend: llama.cpp"), "another engine"),
        (("dgx-spark\n", "dgx-spark-4gpu\n"), "more than two Sparks"),
        (("dgx-spark\n", "rtx-pro\n"), "no GB10"),
    ],
)
def test_what_is_for_others(put, change, reason):
    with pytest.raises(NotForUs) as error:
        load_recipe(put(ONE, change))
    assert error.value.reason == reason


@pytest.mark.parametrize(
    ("text", "change", "line", "problem"),
    [
        (ONE, ("--port 8000", "--uds /x"), 28, "args.uds: found it set"),
        (ONE, ("--port 8000", "--seed $X"), 28, "serve.command: found $X, which a shell expands"),
        (ONE, ("    vllm serve owner", "    pip install x\n    vllm serve owner"), 26,
         "serve.command: found pip install; expected vllm serve"),
        (ONE, ("serve owner/Model-30B", "serve other/Model"), 26, "which checkpoint.target names"),
        (ONE, ("PRECISION=high", "PRECISION=$X"), 19, "env.VLLM_FLOAT32_MATMUL_PRECISION: found"),
        (ONE, ("-e HF_TOKEN=$HF_TOKEN", "-e HF_TOKEN=abc"), 18, "found a secret's name"),
        (ONE, ("hardware: dgx-spark", "hardware: dgx-spark-2gpu"), 26, "expected 2, as `hardware`"),
        (ONE, ("  image: vllm/vllm-openai:v0.28.0", "  image:"), 14, "runtime.image: found null"),
        (PAIR, ("--max-model-len 262144 \\\n          ", "--max-model-len 9 \\\n          "), 40,
         "additional_commands[0].command: found max-model-len: 9; expected 262144, as the head's"),
        (PAIR, ("id: worker", "id: proxy"), 37, "found another program"),
    ],
)  # fmt: skip
def test_lines_of_problems(put, text, change, line, problem):
    path = put(text, change)
    with pytest.raises(PlanError) as error:
        load_recipe(path)
    assert any(
        each.startswith(f"{path}:{line}: ") and problem in each for each in error.value.problems
    ), error.value.problems
