"""Causes that a log names: memory, and what an engine dies of later."""

import re

from deploys.plan.ailment import LogAilment

_LOWER = "Lower the recipe's gpu-memory-utilization (0.8, then 0.7), then its max-model-len"

MEMORY_AILMENTS = (
    LogAilment(
        name="free-memory-at-start",
        cause="Less memory is free than gpu-memory-utilization asks for; on a Spark vLLM also "
        "counts files that Linux keeps in memory as used",
        remedy="See with `free -g` who has it. Is `available` high and `free` low, then "
        "`sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'` and a new start; else stop what "
        "takes it, or lower gpu-memory-utilization",
        source="vllm-project/vllm#35313, #48140; NVIDIA drops caches in 34 of its playbooks",
        pattern=re.compile(r"less than desired (GPU|CPU) memory utilization"),
    ),
    LogAilment(
        name="no-memory-for-kv-cache",
        cause="The weights leave no memory for the KV cache",
        remedy="Raise gpu-memory-utilization if the Spark has more, else take a smaller model",
        source="vLLM's check of the KV cache",
        pattern=re.compile(r"No available memory for the cache blocks"),
    ),
    LogAilment(
        name="kv-cache-too-small",
        cause="The KV cache does not hold one request of max-model-len",
        remedy="Lower max-model-len to what the message says, or raise gpu-memory-utilization or "
        "kv-cache-memory-bytes",
        source="vLLM's check of the KV cache",
        pattern=re.compile(r"larger than the available KV cache memory"),
    ),
    LogAilment(
        name="earlyoom",
        cause="earlyoom ended the engine before the memory of the Spark was full",
        remedy=_LOWER,
        source="this project's own setting of earlyoom: group_data/all.py",
        pattern=re.compile(r"sending SIG(TERM|KILL) to process \d+ .*(?i:vllm|python)"),
    ),
    LogAilment(
        name="kernel-oom",
        cause="The kernel ended the engine, as the memory of the Spark was full",
        remedy=_LOWER,
        source="Linux' own OOM killer; LMCache/LMCache#4759 shows one on a GB10",
        pattern=re.compile(r"Out of memory: Killed process \d+ \(.*(?i:vllm|python)"),
    ),
    LogAilment(
        name="cuda-out-of-memory",
        cause="The GPU ran out of memory",
        remedy=_LOWER,
        source="NVIDIA's playbook nemotron: 0.8, then 0.70",
        pattern=re.compile(r"CUDA out of memory|torch\.OutOfMemoryError|cudaErrorMemoryAllocation"),
    ),
)

LIFE_AILMENTS = (
    LogAilment(
        name="illegal-address",
        cause="The GPU met an address that is not: with DFlash a drafter of before 2026-04-19 "
        "(beyond 16,000 tokens), or its CUDA graphs with many requests at once",
        remedy="Take the drafter's present commit (`python -m deploys.lock --refresh`); if it "
        "recurs, lower max-num-seqs or set enforce-eager, and report it",
        source="seed 001; z-lab/dflash#146",
        pattern=re.compile(r"cudaErrorIllegalAddress|an illegal memory access was encountered"),
    ),
    LogAilment(
        name="step-timeout",
        cause="A step of the engine never ended: memory that was nearly full, or ranks that wait "
        "for each other",
        remedy="Lower gpu-memory-utilization (0.70 to 0.75 on two Sparks); if it recurs on two, "
        "set enforce-eager or take another image: some hang hybrid models with CUDA graphs",
        source="eugr/spark-vllm-docker#321; luisefigueroa/pulsar-gb10-vllm-stack",
        pattern=re.compile(r"RPC call to \w+ timed out"),
    ),
    LogAilment(
        name="hard-down",
        cause="The Spark lost its power or froze twice within an hour while its engine ran",
        remedy=f"{_LOWER}, and run pyinfra again; if memory is not the cause, look at its supply",
        source="files/engine/boots.py",
        pattern=re.compile(r"this Spark went down hard twice within an hour"),
    ),
    LogAilment(
        name="no-answer",
        cause="The engine ran and generated nothing, so its supervisor ended it",
        remedy="It starts again by itself. If it recurs, the lines before tell what it was at; on "
        "two Sparks try another image, for some hang hybrid models with CUDA graphs",
        source="files/engine/probe.py; luisefigueroa/pulsar-gb10-vllm-stack",
        pattern=re.compile(
            r"engine ended: .*(while its counters stand still|"
            r"a completion of one token gave status)"
        ),
    ),
    LogAilment(
        name="start-too-long",
        cause="The engine did not answer within the recipe's start_timeout",
        remedy="Raise start_timeout: the first start compiles, and large weights take minutes",
        source="files/engine/engine.py; seed 004 saw 14 minutes",
        pattern=re.compile(r"engine ended: the engine did not answer within \d+ s"),
    ),
    LogAilment(
        name="rank-lost",
        cause="Its peer's engine or the link to it ended, so this one did too",
        remedy="Look at the other Spark first: the cause is there, or in the cable",
        source="files/engine/link.py",
        pattern=re.compile(r"^engine ended: \S+: (?!it was stopped)"),
    ),
    LogAilment(
        name="start-limit",
        cause="Five starts in an hour failed: systemd tries no more, so that a loop does not use "
        "up the memory that sshd needs",
        remedy="Mend the cause, then run pyinfra again, which begins anew",
        source="files/engine/vllm@.service; eugr/spark-vllm-docker#257: 35 starts cost sshd",
        pattern=re.compile(r"Start request repeated too quickly|start-limit-hit"),
    ),
    LogAilment(
        name="nccl-on-sockets",
        cause="The two ranks talk by TCP, not by RDMA: slower, and without an error",
        remedy="Look whether /sys/class/infiniband has the fabric's devices, and reboot where not; "
        "`pyinfra inventory.py deploys.steps.fabric.apply` says what is wrong with the link",
        source="luisefigueroa/pulsar-gb10-vllm-stack; NCCL falls back without an error",
        pattern=re.compile(r"NET/IB : No device found|NET/Socket : Using|Using network Socket"),
    ),
)
