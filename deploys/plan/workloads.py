"""Names of what is measured."""

WORKLOADS = (
    "single",
    "concurrent-1",
    "concurrent-4",
    "concurrent-16",
    "concurrent-64",
    "concurrent-128",
    "short",
    "code",
    "json",
    "prose",
    "long-8k",
    "long-32k",
    "mix-short",
    "mix-typical",
    "mix-long",
    "prefill-decode",
)
METRICS = (
    "tok_s",
    "tok_s_p95",
    "tok_s_min",
    "tok_s_max",
    "total_tok_s",
    "ttft_ms",
    "ttft_ms_p95",
    "ttft_cold_ms",
    "prefill_tok_s",
    "acceptance",
    "errors",
)
