"""Causes in GPU kernels, and in vLLM's choice among them."""

from sparkwright.causes.cause import LogCause
from sparkwright.common.command_line import next_line

_MARLIN = "moe-backend: marlin and linear-backend: marlin in the recipe's `args`"

COMPUTE_CAUSES = (
    LogCause(
        name="fp8-kv-cache",
        cause="This model cannot use an FP8 KV cache here",
        remedy="Remove kv-cache-dtype from the recipe",
        source="AI-Guru; vllm-project/vllm#26646; NVIDIA/dgx-spark-playbooks#107",
        pattern=r"fp8e4nv|_cudnn_gemm_fp8|CUDNN_STATUS_EXECUTION_FAILED",
    ),
    LogCause(
        name="foreign-kernels",
        cause="A kernel built for another Blackwell GPU fails on this one",
        remedy=f"{_MARLIN} do without it; or take an image that was built for SM 12.1",
        source="vllm-project/vllm#38423, #39761, #40082; flashinfer-ai/flashinfer#2065; "
        "Avarok-Cybersecurity/dgx-vllm#9",
        pattern=r"illegal instruction was encountered|(?i:illegal_?instruction)\b|"
        r"[Ff]ailed to run cutlass|RuntimeError.*initialize cutlass|cutlass.*Error Internal|"
        r"Unexpected instruction types|Ptx assembly aborted|expects arch to be one of|"
        r"not supported on SM ?\d|kernel only supports sm\d|"
        r"No supported CUDA architectures found",
    ),
    LogCause(
        name="shared-memory",
        cause="A kernel needs more shared memory than this GPU has: 99 KiB per block on a GB10, "
        "228 on data center GPUs",
        remedy="Remove attention-backend and moe-backend from the recipe; if vLLM's choice fails "
        f"as well, {_MARLIN}",
        source="Triton's words: triton-lang/triton#8182, vllm-project/vllm#36802; NVIDIA/"
        "cutlass#3144 has the sizes",
        pattern=r"errors\.OutOfResources: out of resource: shared memory",
    ),
    LogCause(
        name="gpu-kernels",
        cause="The image has no kernels for this GPU, or its ptxas does not support it",
        remedy="Use the image that the recipe names: GB10 is sm_121 and takes CUDA 13; where a "
        "recipe is your own, TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas may do",
        source="triton-lang/triton#8539, #9181; the SM121 guide; NVIDIA's playbook trt-llm",
        pattern=r"no kernel image is available|kernel image is invalid|ptxas\S* fatal|"
        r"Value 'sm_\d+\w*' is not|Unsupported gpu architecture|LLVM ERROR: Cannot select|"
        r"nvrtc: error: invalid value for --gpu-architecture",
    ),
    LogCause(
        name="attention-backend",
        cause="No attention kernel supports this combination of KV cache type, drafts and model",
        remedy="Remove kv-cache-dtype from the recipe first, then attention-backend; drafts have "
        "an attention_backend of their own in speculative-config",
        source="vllm-project/vllm#30214, #48406; spark-arena/recipe-registry#23",
        pattern=r"No valid attention backend|Selected backend \S+ is not valid|"
        r"(Unknown|Invalid) attention backend|No valid MLA prefill backend|"
        r"attention backends share no|not supported by attention backend|"
        r"KV cache is not supported with|KV cache \w+ requires a backend",
    ),
    LogCause(
        name="kernel-choice",
        cause="The selected kernels do not support this checkpoint's layers on this GPU",
        remedy="Remove moe-backend and linear-backend from the recipe; if vLLM's choice fails as "
        f"well, {_MARLIN}",
        source="vllm-project/vllm#30163, #33333, #40082, #43969",
        pattern=r"does not support (the|this MoE) deployment|"
        r"moe_backend='?\w+'? (is|does) not support|"
        r"No .*MoE backends? (supports|available)|MoE backend is disabled for|"
        r"(Unknown|Unsupported) \w+ MoE backend|No supported \w+ expert class|"
        r"linear-backend=\S+ was requested but|Forced \w+ kernel .* is not supported|"
        r"kernels? (unavailable|does not support current device|that can implement)|"
        r"gemm is not supported on this device|not divisible by\s+min_thread_",
    ),
    LogCause(
        name="kernel-build",
        cause="Compiling a kernel at the start failed: compiler, headers or memory are missing",
        remedy="Use the image that the recipe names, which has what it needs; remove what a former "
        "image left in cache/flashinfer of our folder; where compilers were killed, "
        'MAX_JOBS: "2" in the recipe\'s `env`',
        source="flashinfer-ai/flashinfer#2252; vllm-project/vllm#19656, #27890",
        pattern=r"[Nn]inja build failed|ninja: build stopped|nvcc: not found|nvcc fatal|"
        r"fatal error: \S+\.h(pp)?: No such file|Failed to find C compiler|"
        r"No such file or directory: '\S*(nvcc|ninja|gcc|cc)'|"
        r"InductorError: .*\b(gcc|g\+\+|nvcc)\b|Killed signal terminated program|"
        r"CalledProcessError: .*\b(ninja|nvcc|gcc|cc1plus)\b|"
        r"command '\S*(gcc|g\+\+|nvcc)' failed",
    ),
    LogCause(
        name="illegal-address",
        cause="Illegal GPU memory access: with DFlash, a drafter older than 2026-04-19 (beyond "
        "16,000 tokens), or its CUDA graphs with many parallel requests",
        remedy=f"Take the drafter's present commit (`{next_line('lock', '--refresh')}`); if it "
        "recurs, lower max-num-seqs or set enforce-eager, and report it",
        source="AEON-7; z-lab/dflash#146; vllm-project/vllm#53726",
        pattern=r"(?i:illegal_?address)|an illegal memory access|CUDA error: (misaligned address|"
        r"unspecified launch failure)|Xid\b.*\b31\b.*MMU Fault|"
        r"Xid\b.*: (13|43), pid",
    ),
    LogCause(
        name="device-assert",
        cause="Index out of bounds in a GPU kernel, such as an invalid token id; drafts are the "
        "first suspect",
        remedy="Remove speculative-config from the recipe; if it recurs, set enforce-eager, and "
        "report it",
        source="AEON-7/Qwen3.6-27B-AEON-Ultimate-Uncensored-DFlash#2; vllm-project/vllm#21731, "
        "#50021",
        pattern=r"Assertion `[^`]*index out of bounds[^`]*` failed|device-side assert triggered",
    ),
    LogCause(
        name="graph-capture",
        cause="CUDA graph capture failed at the start of the engine",
        remedy="To serve now, but slower, set enforce-eager. To use graphs again, remove unusual "
        "options (drafts, attention-backend) or use another image",
        source="CUDA's words; SystemPanic/vllm-windows#5, vllm-project/vllm#51181",
        pattern=r"not permitted when stream is capturing|cudaErrorStreamCapture\w+|"
        r"due to a previous error during capture",
    ),
    LogCause(
        name="batch-invariant",
        cause="VLLM_BATCH_INVARIANT is set, but a layer of this model does not support it",
        remedy="Remove VLLM_BATCH_INVARIANT from the recipe's `env`",
        source="luisefigueroa/pulsar-gb10-vllm-stack: docs/TROUBLESHOOTING.md",
        pattern=r"batch_invariant mode is not supported",
    ),
    LogCause(
        name="cublas",
        cause="A cuBLAS matrix multiplication failed: memory was nearly full, or the library "
        "does not match the driver's CUDA version",
        remedy="Lower gpu-memory-utilization by 0.05; if it recurs, use the image that the recipe "
        "names, and no LD_LIBRARY_PATH in its `env`",
        source="FHNW-Security-Lab-Experimental/glm-5.2-gb10: cyber-runtime/CUBLAS-CRASH-FIX.md",
        pattern=r"CUBLAS_STATUS_(?!SUCCESS|ALLOC_FAILED)[A-Z_]+",
    ),
    LogCause(
        name="compile-failed",
        cause="torch.compile fails on this model",
        remedy="Stop the engine, remove cache/vllm of our folder, which may be another image's, "
        "and start it; if it recurs, set enforce-eager or use the image that the recipe names",
        source="PyTorch's names of its errors",
        pattern=r"^(?!.*(WARNING|INFO|DEBUG)).*(InductorError|BackendCompilerFailed|"
        r"torch\._dynamo\.exc\.\w+)\b",
    ),
)
