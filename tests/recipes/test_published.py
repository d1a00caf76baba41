"""What of published recipes is taken, and what the vLLM of their image says."""

from pathlib import Path

from tests.published.__main__ import report, results, table

RECIPE = """\
recipe_version: "2"
model: nvidia/Qwen3.6-35B-A3B-NVFP4
container: example.org/vllm:nightly-20260826
defaults: {port: 8000}
env: {VLLM_OF_A_FORK: "1"}
command: |
  vllm serve {model} \\
    --port {port} \\
    --max-model-len 32768
"""
FILES = {
    "good": RECIPE,
    "wrong": RECIPE.replace(
        "--max-model-len 32768", "--moe-backend triton \\\n    --mox-backend x"
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
        "taken    good: vLLM 0.28.0 takes it, the nearest: its image's is not known; it does not "
        "know, and passes over, VLLM_OF_A_FORK" in told
    )
    assert "         wrong.yaml:10: args.mox-backend: found" in told
    assert "         refused.yaml:8: args.uds: found it set" in told
    assert "for others: 1 (another engine)" in told
    *_, row, _, last = table([result])
    assert row.endswith("| 3 | 1 | 1 | 1 | 1 |")
    assert last == "3 recipes: 1 taken, 2 refused, with 2 of 2 problems by file and line"
