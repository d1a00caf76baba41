"""Causes in memory, and those by which an engine dies after its start."""

from sparkwright.causes.cause import APPLY, LogCause
from sparkwright.causes.network_causes import NCCL_ON_SOCKETS

_LOWER = "Lower the recipe's gpu-memory-utilization (0.8, then 0.7), then its max-model-len"

MEMORY_CAUSES = (
    LogCause(
        name="negative-graph-estimate",
        cause="vLLM estimated a negative size for the CUDA graphs and enlarged the KV cache by "
        "it: other programs freed memory during the measurement; MTP makes this worse",
        remedy='Set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS: "0" in the recipe\'s `env`, or '
        "set kv-cache-memory-bytes",
        source="vllm-project/vllm#44740, #46932",
        pattern=r"Estimated CUDA graph memory: -[1-9]",
    ),
    LogCause(
        name="free-memory-at-start",
        cause="Less memory is free than gpu-memory-utilization asks for; on a Spark vLLM also "
        "counts the page cache as used",
        remedy="Check `free -g`. If `available` is high and `free` low, run `sudo sh -c 'sync; "
        "echo 3 > /proc/sys/vm/drop_caches'` and restart the engine; otherwise stop the "
        "program that uses the memory, or lower gpu-memory-utilization",
        source="vllm-project/vllm#35313, #48140; NVIDIA drops caches in 34 of its playbooks",
        pattern=r"less than desired (GPU|CPU) memory utilization",
    ),
    LogCause(
        name="no-memory-for-kv-cache",
        cause="The weights leave no memory for the KV cache",
        remedy="Raise gpu-memory-utilization if the Spark has more, else take a smaller model",
        source="vLLM's check of the KV cache",
        pattern=r"No available memory for the cache blocks|Available KV cache memory: -\d",
    ),
    LogCause(
        name="kv-cache-too-small",
        cause="The KV cache does not hold one request of max-model-len",
        remedy="Lower max-model-len to what the message says, or raise gpu-memory-utilization or "
        "kv-cache-memory-bytes",
        source="vLLM's check of the KV cache",
        pattern=r"larger than the (available KV cache memory|maximum number of tokens that can be)|"
        r"Cannot auto-fit max_model_len|"
        r"estimated maximum model length is",
    ),
    LogCause(
        name="mamba-blocks",
        cause="The KV cache has fewer blocks than max-num-seqs; each request of a hybrid model "
        "needs its own block",
        remedy="Lower max-num-seqs to what the message says, or raise gpu-memory-utilization",
        source="vllm-project/vllm#49064",
        pattern=r"exceeds available Mamba cache blocks",
    ),
    LogCause(
        name="batched-tokens",
        cause="max-num-batched-tokens is less than vLLM needs for this model",
        remedy="Raise max-num-batched-tokens above what the message names",
        source="vLLM's check of the scheduler's configuration; jethac/dgx-spark-hijinks",
        pattern=r"larger than max_num_batched_tokens|"
        r"max_num_batched_tokens \(\d+\) (is smaller|must be)",
    ),
    LogCause(
        name="earlyoom",
        cause="earlyoom ended the engine before the memory of the Spark was full",
        remedy=_LOWER,
        source="this project's own setting of earlyoom: group_data/all.py",
        pattern=r"sending SIG(TERM|KILL) to process \d+ .*(?i:vllm|python)",
    ),
    LogCause(
        name="kernel-oom",
        cause="The kernel's OOM killer ended a process: the Spark's memory was full",
        remedy=_LOWER,
        source="Linux' own OOM killer; LMCache/LMCache#4759 shows one on a GB10",
        pattern=r"(?i:out of memory): Killed process \d+|invoked oom-killer|oom-kill:constraint|"
        r"killed by the OOM killer|Failed with result 'oom-kill'|"
        r"systemd-oomd\S* Killed \S+ due to memory",
    ),
    LogCause(
        name="ray-memory",
        cause="Ray ended a rank because 95 % of the memory was in use; the page cache reaches "
        "that while weights load",
        remedy="Remove distributed-executor-backend: ray from the recipe (two Sparks do not need "
        'Ray), or set RAY_memory_monitor_refresh_ms: "0" in its `env`; earlyoom watches '
        "the memory here",
        source="MiaAI-Lab/GLM-5.3-Flash-NVFP4-Dual-DGX-Spark#2; vllm-project/vllm#1160, #2669",
        pattern=r"ray\.exceptions\.OutOfMemoryError|killed due to memory pressure \(OOM\)|"
        r"Ray killed this worker",
    ),
    LogCause(
        name="cuda-out-of-memory",
        cause="The GPU ran out of memory",
        remedy=_LOWER,
        source="NVIDIA's playbook nemotron: 0.8, then 0.70",
        pattern=r"CUDA out of memory|torch\.OutOfMemoryError|cudaErrorMemoryAllocation|"
        r"CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|"
        r"Triton Error \[CUDA\]: out of memory|CUDA driver error: out of memory|"
        r"Cuda failure (2 )?'out of memory'|CUBLAS_STATUS_ALLOC_FAILED|"
        r"ASSERT FAILED at \S*CUDACachingAllocator|OSError: \[Errno 12\]|"
        r"DefaultCPUAllocator: can't allocate memory",
    ),
    LogCause(
        name="peer-closed",
        cause="The other rank's process ended and its connections closed; vLLM would notice only "
        "minutes later",
        remedy="Look at the other Spark first: the cause is there",
        source="NVIDIA/nccl#1235; seen on two H100 with a rank that was killed; "
        "eugr/spark-vllm-docker#255",
        pattern=r"socketProgress: Connection closed by remote peer|"
        r"Did the remote server shutdown or crash|"
        r"remote process exited or there was a network error",
    ),
    LogCause(
        name="step-timeout",
        cause="A step of the engine never ended: memory that was nearly full, or ranks that wait "
        "for each other",
        remedy="Lower gpu-memory-utilization (0.70 to 0.75 on two Sparks); if it recurs on two, "
        "set enforce-eager or use another image: some hang with hybrid models and CUDA "
        "graphs",
        source="eugr/spark-vllm-docker#321, #348; luisefigueroa/pulsar-gb10-vllm-stack",
        pattern=r"RPC call to \w+ timed out|shm_broadcast\.py\W.*\b(acquire_read|timeout_ms)\b",
    ),
    LogCause(
        name="hard-down",
        cause="The Spark lost its power or froze twice within an hour while its engine ran",
        remedy=f"{_LOWER}, and {APPLY}; if memory is not the cause, look at its supply",
        source="files/host/engine/crash_guard.py",
        pattern=r"this Spark went down hard twice within an hour",
    ),
    LogCause(
        name="no-answer",
        cause="The engine ran and generated nothing, so its supervisor ended it",
        remedy="It restarts by itself. If it recurs, the preceding log lines show what it was "
        "doing; on two Sparks try another image, because some hang with hybrid models and "
        "CUDA graphs",
        source="files/host/common/probe.py; luisefigueroa/pulsar-gb10-vllm-stack",
        pattern=r"engine ended: .*(while its counters stand still|"
        r"a completion of one token gave status|a request of /v1/\w+ gave status)",
    ),
    LogCause(
        name="start-too-long",
        cause="The engine did not answer within the recipe's start_timeout",
        remedy="Raise start_timeout: the first start compiles, and large weights take minutes",
        source="files/host/engine/supervisor.py; docai.hu saw 14 minutes",
        pattern=r"engine ended: the engine did not answer within \d+ s|"
        r"Timed out waiting for (new )?engine core processes",
    ),
    LogCause(
        name="rank-lost",
        cause="The other Spark's engine, or the link to it, ended, so this engine was ended too",
        remedy="Look at the other Spark first: the cause is there, or in the cable",
        source="files/host/engine/peer_link.py",
        pattern=r"^engine ended: \S+: (?!it was stopped)",
    ),
    LogCause(
        name="start-limit",
        cause="Five starts within an hour failed, so systemd gave up (an endless loop would use "
        "up the memory that sshd needs)",
        remedy=f"Fix the cause, then {APPLY}, which resets the counter",
        source="files/host/engine/vllm@.service; eugr/spark-vllm-docker#257: 35 starts cost sshd",
        pattern=r"Start request repeated too quickly|start-limit-hit",
    ),
    LogCause(
        name="vllm-defect",
        cause="The engine crashed with a Python error that matches no known cause",
        remedy="Search vLLM's issues for this line. Meanwhile remove unusual options from the "
        "recipe, drafts first; then set enforce-eager, or use another image",
        source="Python's names of such errors; eugr/spark-vllm-docker#400",
        # The API server survives an error that a client's request causes.
        pattern=r"^(\((?!APIServer)[^)]*\) )?(ERROR \S+ \S+ \[(?!serving|api_server)\S+\] )?"
        r"(Assertion|Index|Attribute|Type|Name|UnboundLocal|ZeroDivision|NotImplemented)Error\b",
    ),
    LogCause(
        **vars(NCCL_ON_SOCKETS),
        pattern=r"NET/IB : No device found|NET/Socket|Using network Socket",
    ),
    LogCause(
        name="message-role",
        cause="A client sends messages with the role `developer`, which the chat template does "
        "not support; these requests fail",
        remedy="Have the client send `system` (OpenClaw: supportsDeveloperRole: false), or give "
        "the recipe a chat-template that takes `developer`",
        source="AI-Guru, commit 8aa8ee5; 0xku/kon#5",
        pattern=r"Unexpected message role",
    ),
    LogCause(
        name="chat-template",
        cause="The checkpoint has no chat template, so that every chat is refused",
        remedy="Give the recipe a chat-template, or take a checkpoint that was trained to chat",
        source="vllm-project/vllm#39279",
        pattern=r"default chat template is no longer allowed",
    ),
)
