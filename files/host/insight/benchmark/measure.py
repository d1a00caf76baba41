"""benchmark ROOT: measure the engine as ROOT/manifests/benchmark.json says.

The result goes to ROOT/benchmarks/latest.json.
Exit status: 0 it is there and whole, 1 it is not; ROOT/jobs/benchmark.json says why.
"""

import json
import random
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

from host.common import starts
from host.common.atomic import replace
from host.common.command_line import words
from host.common.progress import JobError, Progress
from host.common.retry import run_job
from host.insight.benchmark.bench_engine import MeasuredEngine, readings

# The container's name is in benchmark.service as well, which removes it.
CONTAINER = "sparkwright-benchmark"
COLD = "cold"
QUESTION = "Which three of these notes have most in common? Name them, and say why."
# Characters of a result: its longest part is a number of some twenty for each token.
_MOST = 256 << 20
# Figure -> the tool's percentile of the milliseconds per token; the least is the highest speed.
_SPEEDS = {
    "tok_s": "median_tpot_ms",
    "tok_s_p95": "p5_tpot_ms",
    "tok_s_min": "p100_tpot_ms",
    "tok_s_max": "p0_tpot_ms",
}


class Tool:
    """`vllm bench serve` in a container with the image, files and user of an engine's container."""

    def __init__(self, engine: str, options: Sequence[str]) -> None:
        shown = ["docker", "inspect", "--format", "{{.Image}} {{.Config.User}}", engine]
        found = subprocess.run(shown, capture_output=True, text=True, check=False).stdout.split()
        if len(found) != 2:
            raise JobError(f"There is no container {engine}: does the engine serve? Run again.")
        image, user = found
        command = ["docker", "run", "--rm", "--interactive", "--sig-proxy=false"]
        command += ["--name", CONTAINER, "--pull", "never", "--log-driver", "none", *options]
        command += ["--network", "none", "--user", user, "--volumes-from", engine]
        command += ["--env", "HOME=/tmp", "--env", "USER=engine", "--entrypoint", "python3"]
        program = (resources.files("host.insight.benchmark") / "bench_tool.py").read_text("utf-8")
        command += [image, "-c", program]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def run(self, arguments: Sequence[str], asked: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the tool's own result for these arguments and requests."""
        assert self._process.stdin
        assert self._process.stdout
        line = ""
        try:
            order = {"arguments": arguments, "requests": asked}
            print(json.dumps(order), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline(_MOST)
            answer = json.loads(line or "{}")
        except (OSError, ValueError) as error:
            # So says Docker, at the place of an answer, why it cannot begin.
            answer = {"error": line.strip()[:300] or str(error)}
        if "ttfts" not in answer:
            said = answer.get("error", "it ended in the middle")
            raise JobError(
                f"vLLM's benchmark gave no result: {said}. Its words: `journalctl -u benchmark`. "
                "Does the engine still serve? Then run again."
            )
        return dict(answer)


def arguments(orders: Mapping[str, Any], workload: Mapping[str, Any], number: int) -> list[str]:
    """Return the words after `vllm bench serve` for so many requests, for vLLM 0.17 to 0.33."""
    words = ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]
    words += ["--model", orders["model"], "--tokenizer", orders["tokenizer"]]
    # The server has the template; a trial request would warm its cache.
    words += ["--skip-chat-template", "--ready-check-timeout-sec", "0", "--disable-tqdm"]
    words += ["--num-prompts", str(number), "--max-concurrency", str(workload["concurrency"])]
    words += ["--disable-shuffle", "--metric-percentiles", "0,5,95,100"]
    words += ["--custom-output-len", "-1", "--temperature", str(workload["temperature"])]
    words += ["--extra-body", json.dumps({"chat_template_kwargs": {"enable_thinking": False}})]
    if None not in workload["asked"]:
        # Kernels and connections of a first request; a long prompt must find a cold cache.
        words += ["--num-warmups", "1"]
    return [*words, "--ignore-eos"] if workload["whole"] else words


def long_prompt(
    tokens: int, passages: Sequence[str], name: str, count: Callable[[str], int]
) -> str:
    """Return a prompt of so many tokens, or fewer by less than a passage.

    It begins with a name that no earlier prompt has had, so that no cache holds it. Passages come
    again in another order, which the name decides.
    """
    parts = [f"Notes of collection {name}."]
    left = tokens - count(f"{parts[0]}\n\n{QUESTION}")
    # With what a number of three digits takes.
    lengths = [count(f"\n\n100. {passage}") for passage in passages]
    order = random.Random(name)
    while True:
        for place in order.sample(range(len(passages)), len(passages)):
            left -= lengths[place]
            if left < 0:
                return "\n\n".join([*parts, QUESTION])
            parts.append(f"{len(parts)}. {passages[place]}")


def figures(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, float]:
    """Return the figures of a workload by its runs' labels and results: of several the median.

    If there are other runs, cold ones count only for ``ttft_cold_ms`` and ``prefill_tok_s``.
    """
    cold = [found for label, result in runs if label == COLD and (found := _of_run(result))]
    usual = [_of_run(result) for label, result in runs if label != COLD] or cold
    names = dict.fromkeys(name for run in usual for name in run)
    found = {name: median(run[name] for run in usual if name in run) for name in names}
    for run in cold:
        # With a warm prefix nearly nothing of a prompt is read again.
        found |= {"ttft_cold_ms": run["ttft_ms"], "prefill_tok_s": run["prefill_tok_s"]}
    return found


def _of_run(result: Mapping[str, Any]) -> dict[str, float]:
    if not result["completed"] or not result["median_ttft_ms"]:
        return {}
    first = result["median_ttft_ms"]
    # An answer of one token has no time per further token.
    found = {name: 1000 / result[key] for name, key in _SPEEDS.items() if result[key] > 0}
    found |= {"total_tok_s": result["output_throughput"]}
    found |= {"ttft_ms": first, "ttft_ms_p95": result["p95_ttft_ms"]}
    found["prefill_tok_s"] = result["total_input_tokens"] / result["completed"] / first * 1000
    if "spec_decode_acceptance_rate" in result:
        found["acceptance"] = result["spec_decode_acceptance_rate"] / 100
        found["accepted_length"] = result["spec_decode_acceptance_length"]
        if places := result["spec_decode_per_position_acceptance_rates"]:
            found["acceptance_first"] = places[0]
    return found


def errors(result: Mapping[str, Any]) -> list[str]:
    """Return why requests failed."""
    # Several releases of the tool count a stream that breaks off as a success.
    answers = zip(result["output_lens"], result["errors"], strict=True)
    return [
        error.strip().rpartition("\n")[2][:300] or "no token came"
        for length, error in answers
        if error or not length
    ]


class Measurement:
    """One benchmark, from its orders to its result."""

    def __init__(self, root: Path, orders: Mapping[str, Any]) -> None:
        self._root, self._orders = root, orders
        self._started = time.time()
        self._engine = MeasuredEngine(orders["place"], orders["release"], orders["model"])
        self.done: list[dict[str, Any]] = []

    def measure(self) -> tuple[str, int, int]:
        """Return the phase, and the workloads that are done of all."""
        return "measuring", len(self.done), len(self._orders["workloads"])

    def result(self, progress: Progress) -> dict[str, Any]:
        """Measure everything, or what can be until the engine or the tool gives up."""
        release, given_up = self._orders["release"], ""
        start, others = starts.served(self._orders["place"], release), self._engine.others()
        context = self._engine.context()
        variables = ["--env-file", f"{self._root}/releases/{release}/engine.env"]
        tool = Tool(f"vllm-{release}", [*self._orders["options"], *variables])
        for workload in self._orders["workloads"]:
            progress.message = workload["name"]
            try:
                self.done.append(self._of(workload, context, tool))
            except JobError as stop:
                if not self.done:
                    raise
                given_up = f"{workload['name']}: {stop}"
                break
        progress.message = ""
        known = {"started": self._started, "start": start, "others": others, "given_up": given_up}
        return {**known, "ended": time.time(), "workloads": self.done}

    def _of(self, workload: Mapping[str, Any], context: int, tool: Tool) -> dict[str, Any]:
        name = workload["name"]
        if workload["context"] > context:
            why = f"needs {workload['context']:,} tokens of context; max-model-len is {context:,}"
            return {"name": name, "skipped": why}
        asked = self._requests(workload)
        preempted, runs = self._engine.preemptions(), []
        with readings() as gpu:
            for label in workload["runs"]:
                now = asked[:1] if label == COLD else asked
                runs.append((label, tool.run(arguments(self._orders, workload, len(now)), now)))
        return {
            "name": name,
            "figures": figures(runs),
            "requests": sum(result["completed"] for _, result in runs),
            "output_tokens": sum(result["total_output_tokens"] for _, result in runs),
            "errors": [error for _, result in runs for error in errors(result)],
            "preemptions": self._engine.preemptions() - preempted,
            "gpu": gpu,
        }

    def _requests(self, workload: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what the tool asks, with long prompts whose beginning no cache holds."""
        asked, count = list(workload["asked"]), cache(self._engine.tokens)
        for place, prompt in enumerate(asked):
            if prompt is None:
                number = place if workload["fresh"] else 0
                name = f"{workload['name']}-{int(self._started):x}-{number}"
                passages, tokens = self._orders["passages"], workload["input_tokens"]
                asked[place] = long_prompt(tokens, passages, name, count)
        return [{"prompt": each, "output_tokens": workload["output_tokens"]} for each in asked]


def main(root: Path) -> None:
    """Do the job; every end but success is raised."""
    manifest = (root / "manifests" / "benchmark.json").read_bytes()
    measurement = Measurement(root, json.loads(manifest))
    with Progress(root / "jobs" / "benchmark.json", measurement.measure) as progress:
        result = measurement.result(progress) | {"orders": sha256(manifest).hexdigest()}
        replace(root / "benchmarks" / "latest.json", json.dumps(result) + "\n", durable=True)
        if result["given_up"]:
            raise JobError(result["given_up"])


def command() -> None:
    """Measure what ROOT/manifests/benchmark.json asks for."""
    (root,) = words(__doc__, "ROOT")
    run_job(lambda: main(Path(root)))
