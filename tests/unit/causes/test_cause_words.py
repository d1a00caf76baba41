"""Other words for known causes, as their programs print them; each entry's own log is in logs/."""

from pathlib import Path

import pytest
import yaml

from sparkwright.causes.log_causes import from_log

WORDS = {
    "no matching manifest for linux/arm64/v8 in the manifest list": "image-for-other-processor",
    "ImportError: cannot import name 'x' from 'vllm.utils'": "image-parts",
    "  Unexpected keyword argument [type=unexpected_keyword_argument, input=1]": "unknown-flag",
    "  Input should be 'auto' or 'fp8' [type=literal_error, input_value='x']": "unknown-flag",
    "ValueError: Tokenizer class X does not exist or is not currently imported.": "model-too-new",
    "_pickle.UnpicklingError: invalid load key, 'v'.": "broken-weights",
    "OSError: x is not a local folder and is not a valid model identifier": "files-absent",
    "No such file or directory: '/models/x/model.safetensors.index.json'": "files-absent",
    "write /var/lib/docker/tmp/x: no space left on device": "disk-full",
    "OSError: [Errno 28] No space left on device: '/psm_0a1b'": "shm-full",
    "Available KV cache memory: -2.26 GiB": "no-memory-for-kv-cache",
    "RuntimeError: Triton Error [CUDA]: out of memory": "cuda-out-of-memory",
    "NCCL WARN Cuda failure 2 'out of memory'": "cuda-out-of-memory",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)": "kernel-oom",
    "raylet: 2 Workers (tasks / actors) killed due to memory pressure (OOM)": "ray-memory",
    "nvcc fatal   : Unsupported gpu architecture 'compute_121a'": "gpu-kernels",
    "This kernel only supports sm120.": "foreign-kernels",
    "RuntimeError: No supported CUDA architectures found for major versions [10].": (
        "foreign-kernels"
    ),
    "InductorError: CalledProcessError: Command '['/usr/bin/gcc', 'x.c']'": "kernel-build",
    "NVRM: Xid (PCI:000f:01:00): 13, pid=1, Graphics SM Warp Exception": "illegal-address",
    "AssertionError: n_physical_experts=256 must be divisible by ep_size=3.": "gpus-indivisible",
    "RuntimeError: CUDA error: invalid device ordinal": "gpus-too-few",
    "NCCL WARN socketStartConnect: Connect to 10.100.0.2<3> failed : No route": "rank-unreached",
    "NCCL error: remote process exited or there was a network error": "peer-closed",
    "RuntimeError: No CUDA GPUs are available": "gpu-lost",
    "NCCL WARN Cuda failure 999 'unknown error'": "cuda-unknown-error",
    "initialization error: load library failed: libcuda.so.1: cannot open": "driver-not-loaded",
    "modprobe: FATAL: Module nvidia not found in /lib/modules/7.0.0": "driver-not-loaded",
    "failed to discover GPU vendor from CDI: no known GPU vendor found": "cdi-device",
    "engine ended: a request of /v1/embeddings gave status 500: x, 3 times in a row": "no-answer",
    "NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0xffff:2477)": "gpu-fault",
}
WORDS |= {
    line: name
    for name, lines in yaml.safe_load(Path(__file__).with_name("words.yaml").read_text()).items()
    for line in lines
}
HARMLESS = (
    "INFO 11-21 07:19:23 [gpu_worker.py:462] Available KV cache memory: 2.26 GiB",
    "WARNING 11-21 07:19:23 [x.py:1] ImportError: cannot import name 'deep_gemm'; not used",
    "No valid triton configs. OutOfResources: out of resource: triton_mm Required: 131072",
    "NCCL INFO Call to connect returned Connection refused, retrying",
    "NVRM: Xid (PCI:000f:01:00): 45, pid=1, Ch 00000008",
)


@pytest.mark.parametrize("line", WORDS)
def test_other_words_for_a_cause(line: str) -> None:
    assert from_log([line])[0].name == WORDS[line]


@pytest.mark.parametrize("line", HARMLESS)
def test_words_that_tell_of_nothing(line: str) -> None:
    assert from_log([line]) == []
