"""Makes vLLM believe that it runs on a GPU of some kind; there is none, and nothing is computed.

Runs in the engine image's Python with a release of vLLM; call `present` before anything else of
vLLM is imported.
"""

import importlib
import os
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from unittest import mock


@dataclass(frozen=True)
class Gpu:
    """What vLLM's configuration asks of a GPU; ``units`` are streaming multiprocessors."""

    name: str
    capability: tuple[int, int]
    memory_gib: float
    integrated: bool
    units: int


# By hardware class; name and memory as sparkwright/common/hardware.py has them, with their sources.
# Multiprocessors: the cores of NVIDIA's data sheets (6,144, 24,064 and 21,760), 128 to each.
GPUS = {
    "gb10": Gpu("NVIDIA GB10", (12, 1), 121.7, integrated=True, units=48),
    "gb10-64gb": Gpu("NVIDIA GB10", (12, 1), 57.7, integrated=True, units=48),
    "rtx-pro-6000": Gpu("NVIDIA RTX PRO 6000 Blackwell", (12, 0), 94.97, False, units=188),
    "rtx-5090": Gpu("NVIDIA GeForce RTX 5090", (12, 0), 31.36, False, units=170),
}

# vLLM's compiled parts, which the files of a release do not hold.
_KERNELS = ("_C", "_C_stable_libtorch", "_moe_C", "_moe_C_stable_libtorch", "_qutlass_C")
_ATTENTION_KERNELS = ("_vllm_fa2_C", "_vllm_fa3_C")


def present(gpu: Gpu) -> None:
    """Present the machine as one with a single GPU."""
    os.environ["VLLM_TARGET_DEVICE"] = "cuda"
    for kernels in _KERNELS:
        sys.modules[f"vllm.{kernels}"] = types.ModuleType(f"vllm.{kernels}")
    import vllm.platforms
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    answers = {
        "get_device_capability": DeviceCapability(*gpu.capability),
        "get_device_name": gpu.name,
        "get_device_uuid": "GPU-presented",
        "get_device_total_memory": int(gpu.memory_gib * 2**30),
        "device_count": 1,
        "is_integrated_gpu": gpu.integrated,
        "num_compute_units": gpu.units,
        "is_fully_connected": True,
        "check_if_supports_dtype": None,
        "import_kernels": None,
        "get_cuda_runtime_major": 13,
    }

    class Presented(CudaPlatformBase):
        @classmethod
        def has_device_capability(cls, capability, device_id=0):
            wanted = capability if isinstance(capability, tuple) else divmod(capability, 10)
            return gpu.capability >= tuple(wanted)

    for name, answer in answers.items():
        setattr(Presented, name, _saying(answer))
    vllm.platforms._current_platform = Presented()
    _stand_in_for_attention_kernels(Path(vllm.platforms.__file__).parents[1])
    _answer_for_kernels()
    _have_triton()


def _saying(answer):
    return classmethod(lambda cls, *args, **kwargs: answer)


def _stand_in_for_attention_kernels(vllm: Path) -> None:
    """Let FlashAttention 2 count as there; its package refuses to load without its library."""
    package = "vllm.vllm_flash_attn"
    for kernels in _ATTENTION_KERNELS:
        sys.modules[f"{package}.{kernels}"] = types.ModuleType(f"{package}.{kernels}")
    try:
        interface = importlib.import_module(f"{package}.flash_attn_interface")
    except ImportError:
        sys.modules[package] = stand_in = types.ModuleType(package)
        stand_in.__path__ = [str(vllm / "vllm_flash_attn")]
        interface = importlib.import_module(f"{package}.flash_attn_interface")
        for name in dir(interface):
            if not name.startswith("__"):
                setattr(stand_in, name, getattr(interface, name))
    interface.FA2_AVAILABLE = True


class _Kernels(types.ModuleType):
    """vLLM's kernels as PyTorch names them: modules look at some when they are imported."""

    def __getattr__(self, name):
        return mock.MagicMock(name=name)


def _answer_for_kernels() -> None:
    """Say that the kernels for this GPU were built: a release's wheel has them."""
    import torch
    from vllm import _custom_ops

    torch.ops._C = _Kernels("torch.ops._C")
    for name in dir(_custom_ops):
        if name.startswith("cutlass_") and "supports" in name:
            setattr(_custom_ops, name, lambda *args, **kwargs: True)


def _have_triton() -> None:
    """Say that Triton is there, as in every image for a GPU. Older releases do not ask."""
    import vllm.config.vllm

    vllm.config.vllm.HAS_TRITON = True


def inspect_models_here() -> None:
    """Look at a model's class in this process: in another, no GPU is presented."""
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda function: function()
