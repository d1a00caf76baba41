"""Causes that a log names: memory, and what an engine dies of later."""

from sparkwright.causes.cause import LogCause
from sparkwright.causes.network_causes import NCCL_ON_SOCKETS

_LOWER = "Lower the recipe's gpu-memory-utilization (0.8, then 0.7), then its max-model-len"

MEMORY_CAUSES = (
    LogCause(
        name="negative-graph-estimate",
        cause="vLLM took the CUDA graphs for less than nothing, and made the KV cache larger by "
        "it: on a Spark other programs give memory back while it measures, and MTP makes it worse",
        remedy='VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS: "0" in the recipe\'s `env`, or the size '
        "itself by kv-cache-memory-bytes",
        source="vllm-project/vllm#44740, #46932",
        pattern=r"Estimated CUDA graph memory: -[1-9]",
    ),
    LogCause(
        name="free-memory-at-start",
        cause="Less memory is free than gpu-memory-utilization asks for; on a Spark vLLM also "
        "counts files that Linux keeps in memory as used",
        remedy="See with `free -g` who has it. Is `available` high and `free` low, then "
        "`sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'` and a new start; else stop what "
        "takes it, or lower gpu-memory-utilization",
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
        cause="The KV cache has fewer blocks than max-num-seqs: each request of a hybrid model "
        "takes one of its own",
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
        cause="The kernel ended a process, as the memory of the Spark was full",
        remedy=_LOWER,
        source="Linux' own OOM killer; LMCache/LMCache#4759 shows one on a GB10",
        pattern=r"(?i:out of memory): Killed process \d+|invoked oom-killer|oom-kill:constraint|"
        r"killed by the OOM killer|Failed with result 'oom-kill'|"
        r"systemd-oomd\S* Killed \S+ due to memory",
    ),
    LogCause(
        name="ray-memory",
        cause="Ray ended a rank as 95 % of the Spark's memory was taken, which loading weights "
        "does with the files that Linux keeps",
        remedy="Take distributed-executor-backend: ray out of the recipe, two Sparks need none; "
        'else RAY_memory_monitor_refresh_ms: "0" in its `env`, as earlyoom watches memory here',
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
        cause="The other rank's process ended: its connections closed under this one, minutes "
        "before vLLM gives up",
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
        "set enforce-eager or take another image: some hang hybrid models with CUDA graphs",
        source="eugr/spark-vllm-docker#321, #348; luisefigueroa/pulsar-gb10-vllm-stack",
        pattern=r"RPC call to \w+ timed out|shm_broadcast\.py\W.*\b(acquire_read|timeout_ms)\b",
    ),
    LogCause(
        name="hard-down",
        cause="The Spark lost its power or froze twice within an hour while its engine ran",
        remedy=f"{_LOWER}, and run pyinfra again; if memory is not the cause, look at its supply",
        source="files/engine/boots.py",
        pattern=r"this Spark went down hard twice within an hour",
    ),
    LogCause(
        name="no-answer",
        cause="The engine ran and generated nothing, so its supervisor ended it",
        remedy="It starts again by itself. If it recurs, the lines before tell what it was at; on "
        "two Sparks try another image, for some hang hybrid models with CUDA graphs",
        source="files/engine/probe.py; luisefigueroa/pulsar-gb10-vllm-stack",
        pattern=r"engine ended: .*(while its counters stand still|"
        r"a completion of one token gave status)",
    ),
    LogCause(
        name="start-too-long",
        cause="The engine did not answer within the recipe's start_timeout",
        remedy="Raise start_timeout: the first start compiles, and large weights take minutes",
        source="files/engine/engine.py; docai.hu saw 14 minutes",
        pattern=r"engine ended: the engine did not answer within \d+ s|"
        r"Timed out waiting for (new )?engine core processes",
    ),
    LogCause(
        name="rank-lost",
        cause="Its peer's engine or the link to it ended, so this one did too",
        remedy="Look at the other Spark first: the cause is there, or in the cable",
        source="files/engine/link.py",
        pattern=r"^engine ended: \S+: (?!it was stopped)",
    ),
    LogCause(
        name="start-limit",
        cause="Five starts in an hour failed: systemd tries no more, so that a loop does not use "
        "up the memory that sshd needs",
        remedy="Mend the cause, then run pyinfra again, which begins anew",
        source="files/engine/vllm@.service; eugr/spark-vllm-docker#257: 35 starts cost sshd",
        pattern=r"Start request repeated too quickly|start-limit-hit",
    ),
    LogCause(
        name="vllm-defect",
        cause="The engine ended by an error in its own program, which no entry here knows",
        remedy="Search vLLM's issues for the line; meanwhile take out of the recipe what is least "
        "usual in it: drafts first, then set enforce-eager, or take another image",
        source="Python's names of such errors; eugr/spark-vllm-docker#400",
        # The API server outlives what a request of a client's makes it stumble over.
        pattern=r"^(\((?!APIServer)[^)]*\) )?(ERROR \S+ \S+ \[(?!serving|api_server)\S+\] )?"
        r"(Assertion|Index|Attribute|Type|Name|UnboundLocal|ZeroDivision|NotImplemented)Error\b",
    ),
    LogCause(
        **vars(NCCL_ON_SOCKETS),
        pattern=r"NET/IB : No device found|NET/Socket|Using network Socket",
    ),
    LogCause(
        name="message-role",
        cause="A client sends messages in the role `developer`, which the model's chat template "
        "does not know: those requests fail",
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
