"""The module of vLLM that a program of ours imports in a container of the engine's image."""

import sys
from types import SimpleNamespace

from standin import bench

sys.modules.update(
    {
        "vllm.entrypoints": SimpleNamespace(),
        "vllm.entrypoints.cli": SimpleNamespace(),
        "vllm.entrypoints.cli.main": bench,
    }
)
