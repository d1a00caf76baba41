"""Causes of a failed start that its log names: image, command line, model files, network."""

import re

from deploys.plan.ailment import LogAilment

START_AILMENTS = (
    LogAilment(
        name="gpu-kernels",
        cause="The image has no kernels for this GPU, or its ptxas does not know it",
        remedy="Use the image that the recipe names: GB10 is sm_121 and takes CUDA 13; where a "
        "recipe is your own, TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas may do",
        source="triton-lang/triton#8539, #9181; seed 003; NVIDIA's playbook trt-llm",
        pattern=re.compile(r"no kernel image is available|ptxas fatal|Value 'sm_\d+\w*' is not"),
    ),
    LogAilment(
        name="driver-too-old",
        cause="The image wants a newer NVIDIA driver than this Spark has",
        remedy="Update DGX OS and reboot (driver and CUDA come as one set), or take an image for "
        "the CUDA that `nvidia-smi` shows",
        source="ggml-org/llama.cpp#9665 shows the container toolkit's words; CUDA's error 35",
        pattern=re.compile(
            r"unsatisfied condition: cuda>=|CUDA driver version is insufficient|"
            r"NVIDIA driver on your system is too old"
        ),
    ),
    LogAilment(
        name="image-for-other-processor",
        cause="The image is for another processor: a Spark's is arm64",
        remedy="Take an image that has linux/arm64; `docker manifest inspect IMAGE` lists them",
        source="Linux' ENOEXEC as runc words it",
        pattern=re.compile(r"exec format error"),
    ),
    LogAilment(
        name="docker-without-nvidia",
        cause="Docker cannot give the GPU to a container: the NVIDIA runtime is missing",
        remedy="Run pyinfra again, which sets it up; by hand: `sudo nvidia-ctk runtime configure "
        "--runtime=docker && sudo systemctl restart docker`",
        source="docker/cli#2425; NVIDIA's playbook openshell",
        pattern=re.compile(
            r"could not select device driver|[Uu]nknown or invalid runtime name: nvidia"
        ),
    ),
    LogAilment(
        name="image-absent",
        cause="Docker does not have the release's image any more",
        remedy="Run pyinfra again, which fetches it",
        source="the release's own `run`, and Docker with --pull never",
        pattern=re.compile(r"^Docker has no |No such image:"),
    ),
    LogAilment(
        name="release-absent",
        cause="The files of the release are not on the Spark",
        remedy="Run pyinfra again, which lays them down",
        source="files/engine/engine.py",
        pattern=re.compile(r"releases/\S+/unit\.json: .*run pyinfra again"),
    ),
    LogAilment(
        name="gpu-lost",
        cause="The container lost its GPU, as `systemctl daemon-reload` may make one do",
        remedy="Restart the engine: `sudo systemctl restart 'vllm@*'`; if it recurs, something "
        "runs the container without --cgroupns host",
        source="NVIDIA/nvidia-container-toolkit#1227; gorlak/sparky-cluster",
        pattern=re.compile(r"Failed to initialize NVML: Unknown Error|GPU is lost"),
    ),
    LogAilment(
        name="unknown-flag",
        cause="The image's vLLM does not know a flag of the recipe, or not this value",
        remedy="Compare with the recipe's `vllm` version: flags come and go; `make check-recipes` "
        "tells which",
        source="vLLM exits 2 on its command line",
        pattern=re.compile(r"vllm.*: error: (unrecognized arguments|argument|ambiguous option)"),
    ),
    LogAilment(
        name="unknown-variable",
        cause="The image's vLLM does not know a VLLM_ variable of the recipe",
        remedy="Take it out of the recipe's `env`: several gave way to flags (VLLM_USE_FLASHINFER_"
        "MOE_FP4 to --moe-backend in 0.24, VLLM_TEST_FORCE_FP8_MARLIN in 0.29)",
        source="vLLM with --fail-on-environ-validation",
        pattern=re.compile(r"ValueError: Unknown vLLM environment variable"),
    ),
    LogAilment(
        name="unknown-parser",
        cause="vLLM has no such tool or reasoning parser",
        remedy="Qwen3.5 and 3.6 take tool-call-parser qwen3_coder or qwen3_xml, and "
        "reasoning-parser qwen3",
        source="vLLM's registry",
        pattern=re.compile(
            r"invalid (tool call|reasoning) parser|(Tool|Reasoning) parser '?\S+'? not found", re.I
        ),
    ),
    LogAilment(
        name="context-beyond-model",
        cause="max-model-len is more than the model was made for",
        remedy="Lower it to what the message says; for a million tokens the YaRN override must "
        "stand inside text_config, as in recipe qwen3.5-35b-1m",
        source="vLLM's check of the configuration",
        pattern=re.compile(r"max_model_len \(\d+\) is greater than the derived max_model_len"),
    ),
    LogAilment(
        name="model-too-new",
        cause="The image is too old for the model: its transformers does not know the architecture",
        remedy="Use the image that the recipe names: qwen3_5_moe needs vLLM 0.17 or newer",
        source="vllm-project/vllm#36217; seed 003, whose rebuilt image lost it",
        pattern=re.compile(
            r"does not recognize this architecture|Model architectures .* are not supported"
        ),
    ),
    LogAilment(
        name="fp8-kv-cache",
        cause="This model cannot use an FP8 KV cache here",
        remedy="Take kv-cache-dtype out of the recipe",
        source="seed 000; vllm-project/vllm#26646",
        pattern=re.compile(r"fp8e4nv"),
    ),
    LogAilment(
        name="stale-weights-layout",
        cause="The checkpoint names its weights otherwise than this vLLM expects them, as the "
        "first version of seed 001's does, without `language_model.`",
        remedy="Take the present commit: `python -m deploys.lock --refresh`, then run pyinfra",
        source="seed 001, version 2",
        pattern=re.compile(
            r"There is no module or parameter named|weights were not initialized from checkpoint|"
            r"KeyError: '(model\.|language_model\.)?layers\.\d+\."
        ),
    ),
    LogAilment(
        name="broken-weights",
        cause="A file of the weights is cut short or damaged",
        remedy="Hash them all and fetch what is wrong: `pyinfra inventory.py deploys/spark.py "
        "--data weights=verify`",
        source="MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#30",
        pattern=re.compile(r"SafetensorError|MetadataIncompleteBuffer|HeaderTooLarge"),
    ),
    LogAilment(
        name="files-absent",
        cause="A file of the model is not on the Spark, and the engine asks no hub",
        remedy="Run pyinfra again, which fetches what the lock names; for a gated model accept its "
        "licence on the web first, and log in with `hf auth login`",
        source="HF_HUB_OFFLINE=1, which every release sets",
        pattern=re.compile(
            r"(OfflineModeIsEnabled|LocalEntryNotFoundError|GatedRepoError): |"
            r"Repo id must be in the form|does not appear to have a file named|"
            r"Can't load the configuration of|couldn't connect to"
        ),
    ),
    LogAilment(
        name="port-taken",
        cause="Another process took the port",
        remedy="`sudo ss -ltnp` names it: stop it, or give the replica another `port:`",
        source="EADDRINUSE",
        pattern=re.compile(r"[Aa]ddress already in use"),
    ),
    LogAilment(
        name="disk-full",
        cause="The disk is full",
        remedy="`df -h` and `docker system df` show what fills it; `docker image prune -a` frees",
        source="ENOSPC",
        pattern=re.compile(r"No space left on device"),
    ),
    LogAilment(
        name="nccl-wrong-interface",
        cause="NCCL takes another interface than the fabric's",
        remedy="Take NCCL_SOCKET_IFNAME and NCCL_IB_HCA out of the recipe's `env`: the engine "
        "finds them at each start",
        source="NVIDIA's playbook speculative-decoding",
        pattern=re.compile(
            r"Socket operation on non-socket|no socket interface found|No interface found", re.I
        ),
    ),
    LogAilment(
        name="nccl-hang",
        cause="The two ranks stopped hearing of each other inside NCCL",
        remedy="Update the image: NCCL 2.30.5 hangs two Sparks, 2.30.7 does not; with an image "
        'that must stay, NCCL_NVLS_ENABLE: "0" in the recipe\'s `env`',
        source="gorlak/sparky-cluster; NVIDIA/nccl#2167",
        pattern=re.compile(r"Watchdog caught collective operation timeout|NCCL.*unhandled system"),
    ),
)
