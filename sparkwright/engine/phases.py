"""The phases of an engine's start, by its log."""

import re
from collections.abc import Iterable

# Log lines of our supervisor (files/engine) and of vLLM 0.20 to 0.33, in the order of a start.
_PHASES = (
    (re.compile(r"^waiting for (?P<what>.+)"), "waiting for"),
    (re.compile(r"Initializing a V1 LLM engine|Resolved architecture"), "starting the engine"),
    (re.compile(r"Starting to load model|Loading model from scratch"), "loading weights"),
    # Its own loader, that of fastsafetensors, and others.
    (
        re.compile(r"Loading safetensors (?:checkpoint shards|using [\w ]+):\s+(?P<percent>\d+)%"),
        "loading weights",
    ),
    (re.compile(r"Loading drafter model"), "loading the drafter"),
    (re.compile(r"Model loading took (?P<detail>.+)"), "weights loaded"),
    (re.compile(r"Dynamo bytecode transform|torch\.compile takes|Compiling a graph"), "compiling"),
    (re.compile(r"Available KV cache memory: (?P<detail>\S+ \S+)"), "sizing the KV cache"),
    (re.compile(r"KV cache size: (?P<detail>[\d,]+ tokens)"), "sizing the KV cache"),
    (re.compile(r"Autotuning process starts"), "trying FlashInfer's kernels"),
    (re.compile(r"Capturing CUDA graphs.*?(?P<percent>\d+)%"), "capturing CUDA graphs"),
    (re.compile(r"Application startup complete"), "ready"),
)


def phase(lines: Iterable[str]) -> str | None:
    """Return the latest phase of a start in log lines, for people; None if there is none."""
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
