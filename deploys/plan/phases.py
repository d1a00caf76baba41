"""What vLLM's log says of its start: the phase it is in, and why it failed."""

import re
from collections.abc import Iterable

# Log lines of our supervisor (files/engine) and of vLLM 0.20 to 0.33, in the order in which a start
# passes them.
_PHASES = (
    (re.compile(r"^waiting for (?P<what>.+)"), "waiting for"),
    (re.compile(r"Initializing a V1 LLM engine|Resolved architecture"), "starting the engine"),
    (re.compile(r"Starting to load model"), "loading weights"),
    (re.compile(r"Loading safetensors checkpoint shards:\s+(?P<percent>\d+)%"), "loading weights"),
    (re.compile(r"Model loading took (?P<detail>.+)"), "weights loaded"),
    (re.compile(r"Dynamo bytecode transform|torch\.compile takes|Compiling a graph"), "compiling"),
    (re.compile(r"Available KV cache memory: (?P<detail>\S+ \S+)"), "sizing the KV cache"),
    (re.compile(r"KV cache size: (?P<detail>[\d,]+ tokens)"), "sizing the KV cache"),
    (re.compile(r"Capturing CUDA graphs.*?(?P<percent>\d+)%"), "capturing CUDA graphs"),
    (re.compile(r"Application startup complete"), "ready"),
)

# Causes that the seeds and field reports name, each with its remedy.
_HINTS = (
    (
        re.compile(r"CUDA out of memory|OutOfMemoryError|less than desired GPU memory utilization"),
        "Not enough memory: lower the recipe's gpu-memory-utilization, then max-model-len",
    ),
    (
        re.compile(r"fp8e4nv"),
        "This model cannot use an FP8 KV cache here: take kv-cache-dtype out of the recipe",
    ),
    (
        re.compile(r"unrecognized arguments|error: argument"),
        "The image's vLLM does not know a flag of the recipe: compare with its `vllm` version",
    ),
    (
        re.compile(r"no kernel image is available|ptxas fatal|CUDA driver version is insufficient"),
        "The image was built for another GPU or a newer driver: use the recipe's own image",
    ),
    (
        re.compile(r"Address already in use"),
        "Another process took the port: `sudo ss -ltnp` names it",
    ),
    (
        re.compile(r"No space left on device"),
        "The disk is full: `df -h`, `docker system df`",
    ),
)


def phase(lines: Iterable[str]) -> str | None:
    """Return the latest phase of a start that log lines speak of, for people; None if none does."""
    latest = None
    for line in lines:
        for pattern, text in _PHASES:
            if match := pattern.search(line):
                groups = match.groupdict()
                percent = f" {groups['percent']}%" if groups.get("percent") else ""
                detail = f": {groups['detail'].rstrip('.')}" if groups.get("detail") else ""
                what = f" {groups['what']}" if groups.get("what") else ""
                latest = text + what + percent + detail
    return latest


def hint(lines: Iterable[str]) -> str | None:
    """Return the remedy for the first known cause of failure in log lines; None without one."""
    for line in lines:
        for pattern, remedy in _HINTS:
            if pattern.search(line):
                return remedy
    return None
