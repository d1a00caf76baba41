"""What vLLM's log says of a start."""

import pytest

from sparkwright.engine.phases import phase


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("INFO 11-20 Starting to load model /models/tiny...", "loading weights"),
        (
            "Loading safetensors checkpoint shards:  44% Completed | 4/9 [00:41<00:50, 10.1s/it]",
            "loading weights 44%",
        ),
        (
            "Loading safetensors using Fastsafetensor loader:  24% Completed | 10/42 [00:00<00:02]",
            "loading weights 24%",
        ),
        ("INFO 11-21 [gpu_model_runner.py:5274] Loading drafter model...", "loading the drafter"),
        (
            "INFO - autotuner.py:651 - flashinfer.jit: [Autotuner]: Autotuning process starts ...",
            "trying FlashInfer's kernels",
        ),
        (
            "INFO Model loading took 22.5 GiB memory and 98.1 seconds",
            "weights loaded: 22.5 GiB memory and 98.1 seconds",
        ),
        ("Available KV cache memory: 68.2 GiB", "sizing the KV cache: 68.2 GiB"),
        ("GPU KV cache size: 1,234,567 tokens", "sizing the KV cache: 1,234,567 tokens"),
        ("Capturing CUDA graphs (decode, FULL):  63%|###", "capturing CUDA graphs 63%"),
        ("INFO:     Application startup complete.", "ready"),
        (
            "waiting for spark-b at 192.0.2.2: no answer",
            "waiting for spark-b at 192.0.2.2: no answer",
        ),
        ("something else", None),
    ],
)
def test_phases(line, text):
    assert phase([line]) == text
    # The latest counts.
    before = ["Starting to load model x", "noise"]
    assert phase([*before, line]) == (text or "loading weights")
