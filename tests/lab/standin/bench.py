"""`vllm bench serve`: asks a server as vLLM's tool does, and writes down what it saw.

It has nothing of the tool but what files/host/insight/benchmark/bench_tool.py uses.
"""

import argparse
import http.client
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any


def main() -> None:
    # Imported as late as by the tool, which has it of files/host/insight/benchmark/bench_tool.py.
    import pandas

    parser = argparse.ArgumentParser()
    for name in ("base-url", "endpoint", "model", "extra-body", "result-dir", "result-filename"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--dataset-path")
    for name in ("num-prompts", "max-concurrency"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--ignore-eos", action="store_true")
    options, _ = parser.parse_known_args(sys.argv[3:])
    rows = pandas.read_json(path_or_buf=options.dataset_path, lines=True)
    asked = [row.to_dict() for _, row in rows.iterrows()][: options.num_prompts]
    began = time.perf_counter()
    with ThreadPoolExecutor(options.max_concurrency) as pool:
        answers = [*pool.map(lambda each: _ask(options, each), asked)]
    result = {key: [answer[key] for answer in answers] for key in answers[0]}
    result |= _summary(result, time.perf_counter() - began)
    Path(options.result_dir, options.result_filename).write_text(json.dumps(result))


def _summary(result: dict[str, Any], duration: float) -> dict[str, Any]:
    good = [place for place, error in enumerate(result["errors"]) if not error]
    first = [1000 * result["ttfts"][place] for place in good] or [0.0]
    longer = [place for place in good if result["output_lens"][place] > 1]
    rest = [
        1000 * sum(result["itls"][place]) / (result["output_lens"][place] - 1) for place in longer
    ]
    steps = sorted(rest) or [0.0]
    return {
        "duration": duration,
        "completed": len(good),
        "total_input_tokens": sum(result["input_lens"][place] for place in good),
        "total_output_tokens": sum(result["output_lens"]),
        "output_throughput": sum(result["output_lens"]) / duration,
        "median_ttft_ms": median(first),
        "p95_ttft_ms": quantiles(first, n=20, method="inclusive")[-1] if first[1:] else first[0],
        "median_tpot_ms": median(steps),
        "p5_tpot_ms": quantiles(steps, n=20, method="inclusive")[0] if steps[1:] else steps[0],
        "p0_tpot_ms": steps[0],
        "p100_tpot_ms": steps[-1],
    }


def _ask(options: argparse.Namespace, request: dict[str, Any]) -> dict[str, Any]:
    """Return what is told of one request, by the tool's names."""
    body = {
        "model": options.model,
        "messages": [{"role": "user", "content": request["prompt"]}],
        "max_completion_tokens": request["output_tokens"],
        "temperature": options.temperature,
        "ignore_eos": options.ignore_eos,
        "stream": True,
        "stream_options": {"include_usage": True},
        **json.loads(options.extra_body),
    }
    connection = http.client.HTTPConnection(options.base_url.removeprefix("http://"))
    began = time.perf_counter()
    connection.request(
        "POST", options.endpoint, json.dumps(body), {"Content-Type": "application/json"}
    )
    times: list[float] = []
    usage = {"prompt_tokens": 0, "completion_tokens": 0}
    with connection.getresponse() as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                chunk = json.loads(line[6:])
                usage = chunk.get("usage") or usage
                if any(choice["delta"].get("content") for choice in chunk["choices"]):
                    times.append(time.perf_counter())
    return {
        "ttfts": times[0] - began if times else 0.0,
        "itls": [later - earlier for earlier, later in pairwise(times)],
        "input_lens": usage["prompt_tokens"],
        "output_lens": usage["completion_tokens"],
        "errors": "" if times else f"status {answer.status}",
    }
