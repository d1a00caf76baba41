"""The modules of vLLM that programs of ours import in the engine's container."""

import sys
from types import SimpleNamespace

from standin import bench

sys.modules.update(
    {
        "vllm.benchmarks": SimpleNamespace(serve=bench),
        "vllm.benchmarks.datasets": bench,
        "vllm.entrypoints": SimpleNamespace(),
        "vllm.entrypoints.cli": SimpleNamespace(),
        "vllm.entrypoints.cli.main": bench,
    }
)
