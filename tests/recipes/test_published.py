"""What of published recipes is taken, and what the vLLM of their image says."""

from pathlib import Path

from tests.published.__main__ import report, results, table

RECIPE = """\
recipe_version: "2"
model: nvidia/Qwen3.6-35B-A3B-NVFP4
container: vllm/vllm-openai:v0.28.0
defaults: {port: 8000}
env: {VLLM_OF_A_FORK: "1"}
command: |
  vllm serve {model} \\
    --port {port} \\
    --max-model-len 32768
"""
FILES = {
    "good": RECIPE,
    "wrong": RECIPE.replace("--max-model-len 32768", "--moe-backend x"),
    "unknown": RECIPE.replace("--max-model-len 32768", "--mox-backend x"),
    "fork": RECIPE.replace("vllm/vllm-openai:", "example.org/vllm:").replace(
        "--max-model-len 32768", "--moe-backend x \\\n    --mox-backend x"
    ),
    "refused": RECIPE.replace("--port {port}", "--port {port} --uds x"),
    "other": RECIPE.replace("model:", "runtime: sglang\nmodel:"),
}


def test_a_folder_of_recipes(machine: None, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    (result,) = results([str(tmp_path)])
    told = "\n".join(report(result))
    assert (
        "taken    good: vLLM 0.28.0 takes it; it does not know, and passes over, VLLM_OF_A_FORK"
        in told
    )
    assert "         wrong.yaml:9: args.moe-backend: found" in told
    assert "         unknown.yaml:9: args.mox-backend: found it, but vLLM 0.28.0 lacks it" in told
    assert "taken    fork: only its image can judge it; the newest release" in told
    assert "         fork.yaml:9: args.moe-backend: found" in told
    assert "fork.yaml:10" not in told
    assert "         refused.yaml:8: args.uds: found it set" in told
    assert "for others: 1 (another engine)" in told
    *_, row, _, last = table([result])
    assert row.endswith("| 5 | 2 | 2 | 1 | 1 |")
    assert last == "5 recipes: 2 taken, 3 refused, with 3 of 3 problems by file and line"
