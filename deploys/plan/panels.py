"""The panels of the dashboard: a fleet's graphs, each with its PromQL."""

from collections.abc import Sequence
from dataclasses import dataclass

# Grafana chooses the window by the scrape interval and the time that is shown.
_RATE = "$__rate_interval"
_WHERE = '{replica=~"$replica"}'


@dataclass(frozen=True)
class Panel:
    """One graph.

    Attributes:
        unit: Grafana's name of the unit.
        queries: What is shown: the legend of each, and its PromQL.
    """

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]


def _quantile(share: float, metric: str) -> str:
    rate = f"rate({metric}_bucket{_WHERE}[{_RATE}])"
    return f"histogram_quantile({share}, sum by (replica, le) ({rate}))"


def _rate(metric: str, where: str = _WHERE, by: str = "replica") -> str:
    return f"sum by ({by}) (rate({metric}{where}[{_RATE}]))"


def _share(part: str, whole: str) -> str:
    return f"{_rate(part)} / {_rate(whole)}"


_DOOR = '{replica=~"$replica", proxy="door"}'
_HOST = '{spark=~"$spark"}'

SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Engines": (
        Panel(
            "Tokens a second",
            "short",
            (
                ("{{replica}} written", _rate("vllm:generation_tokens_total")),
                ("{{replica}} read", _rate("vllm:prompt_tokens_total")),
            ),
        ),
        Panel(
            "Requests",
            "short",
            (
                ("{{replica}} running", f"sum by (replica) (vllm:num_requests_running{_WHERE})"),
                ("{{replica}} waiting", f"sum by (replica) (vllm:num_requests_waiting{_WHERE})"),
            ),
        ),
        Panel(
            "KV cache in use",
            "percentunit",
            (("{{replica}}", f"max by (replica) (vllm:kv_cache_usage_perc{_WHERE})"),),
        ),
        Panel(
            "Time to the first token",
            "s",
            (
                ("{{replica}} median", _quantile(0.5, "vllm:time_to_first_token_seconds")),
                ("{{replica}} 95 %", _quantile(0.95, "vllm:time_to_first_token_seconds")),
            ),
        ),
        Panel(
            "Time for each further token",
            "s",
            (
                (
                    "{{replica}} median",
                    _quantile(0.5, "vllm:request_time_per_output_token_seconds"),
                ),
                ("{{replica}} 95 %", _quantile(0.95, "vllm:request_time_per_output_token_seconds")),
            ),
        ),
        Panel(
            "Drafts accepted, prompts from the prefix cache",
            "percentunit",
            (
                (
                    "{{replica}} drafts",
                    _share(
                        "vllm:spec_decode_num_accepted_tokens_total",
                        "vllm:spec_decode_num_draft_tokens_total",
                    ),
                ),
                (
                    "{{replica}} prompts",
                    _share("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
                ),
            ),
        ),
        Panel(
            "How requests ended, a second",
            "short",
            (
                (
                    "{{replica}} {{finished_reason}}",
                    _rate("vllm:request_success_total", by="replica, finished_reason"),
                ),
            ),
        ),
        Panel(
            "Preemptions a second",
            "short",
            (("{{replica}}", _rate("vllm:num_preemptions_total")),),
        ),
        Panel(
            "Restarts within an hour",
            "short",
            (("{{spark}}", f"increase(spark_engine_restarts_total{_HOST}[1h])"),),
        ),
    ),
    "Doors": (
        Panel(
            "Answers a second",
            "reqps",
            (
                (
                    "{{replica}} {{code}}",
                    _rate("haproxy_frontend_http_responses_total", _DOOR, "replica, code"),
                ),
            ),
        ),
        Panel(
            "Clients",
            "short",
            (("{{replica}}", f"haproxy_frontend_current_sessions{_DOOR}"),),
        ),
        Panel(
            "Requests that wait for an engine",
            "short",
            (("{{replica}}", f"sum by (replica) (spark_door_requests_waiting{_WHERE})"),),
        ),
        Panel(
            "Engines that are up",
            "short",
            (
                (
                    "{{replica}}",
                    "sum by (replica) (haproxy_server_status"
                    '{replica=~"$replica", proxy="engines", state="UP"})',
                ),
            ),
        ),
    ),
    "Hosts": (
        Panel("GPU clock", "hertz", (("{{spark}}", f"spark_gpu_clock_hertz{_HOST}"),)),
        Panel("GPU power", "watt", (("{{spark}}", f"spark_gpu_power_watts{_HOST}"),)),
        Panel(
            "GPU temperature", "celsius", (("{{spark}}", f"spark_gpu_temperature_celsius{_HOST}"),)
        ),
        Panel("GPU at work", "percentunit", (("{{spark}}", f"spark_gpu_busy_ratio{_HOST}"),)),
        Panel(
            "Memory in use",
            "percentunit",
            (
                (
                    "{{spark}}",
                    f"1 - spark_memory_available_bytes{_HOST} / spark_memory_total_bytes{_HOST}",
                ),
                (
                    "{{spark}} card",
                    f"spark_gpu_memory_used_bytes{_HOST} / spark_gpu_memory_total_bytes{_HOST}",
                ),
            ),
        ),
        Panel(
            "Processor in use",
            "percentunit",
            (
                (
                    "{{spark}}",
                    "1 - avg by (spark) (rate(node_cpu_seconds_total"
                    f'{{spark=~"$spark", mode="idle"}}[{_RATE}]))',
                ),
            ),
        ),
        Panel(
            "Disk in use",
            "percentunit",
            (
                (
                    "{{spark}} {{mountpoint}}",
                    '1 - node_filesystem_avail_bytes{spark=~"$spark", '
                    'fstype!~"tmpfs|overlay|squashfs|vfat"} / node_filesystem_size_bytes',
                ),
            ),
        ),
        Panel(
            "Network, bytes a second",
            "Bps",
            (
                (
                    "{{spark}} {{device}} in",
                    "rate(node_network_receive_bytes_total"
                    f'{{spark=~"$spark", device=~"e.*"}}[{_RATE}])',
                ),
                (
                    "{{spark}} {{device}} out",
                    "rate(node_network_transmit_bytes_total"
                    f'{{spark=~"$spark", device=~"e.*"}}[{_RATE}])',
                ),
            ),
        ),
        Panel(
            "Swapped pages a second",
            "short",
            (
                (
                    "{{spark}}",
                    f"rate(node_vmstat_pswpin{_HOST}[{_RATE}])"
                    f" + rate(node_vmstat_pswpout{_HOST}[{_RATE}])",
                ),
            ),
        ),
    ),
}


def queries() -> Sequence[str]:
    """Return all PromQL of the dashboard, its variables' too, as Grafana would send it."""
    found = [
        query for section in SECTIONS.values() for panel in section for _, query in panel.queries
    ]
    values = {_RATE: "1m", "$replica": ".*", "$spark": ".*"}
    for name, value in values.items():
        found = [query.replace(name, value) for query in found]
    return found
