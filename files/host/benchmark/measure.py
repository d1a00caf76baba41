"""benchmark ROOT: measure the engine as ROOT/manifests/benchmark.json says.

The result goes to ROOT/benchmarks/latest.json.
Exit status: 0 it is there and whole, 1 it is not; ROOT/jobs/benchmark.json says why.
"""

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from host.benchmark.bench_engine import MeasuredEngine
from host.benchmark.bench_gpu import Gpu
from host.benchmark.bench_prompts import LONG, requests
from host.common.atomic import replace
from host.common.command_line import words
from host.common.progress import JobError, Progress
from host.common.retry import run_job

TOOL = resources.files("host.benchmark") / "bench_tool.py"
COLD = "cold"
# What bench_tool.py says of a request that was not asked any more.
TIME_IS_UP = "time is up"
# Characters of a result: its longest part is a number of some twenty for each token.
_MOST = 256 << 20


class Tool:
    """`vllm bench serve` in the engine's container.

    That container has the very vLLM that serves, the tokenizer and all that both need; another one
    would take memory from the engine where GPU and host share it.

    Args:
        container: its name.
    """

    def __init__(self, container: str) -> None:
        # Bytecode would be written into the container.
        command = ["docker", "exec", "--interactive", "--env", "PYTHONDONTWRITEBYTECODE=1"]
        command += [container, "python3", "-c", TOOL.read_text("utf-8")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, arguments: Sequence[str], asked: Sequence[Mapping[str, Any]], seconds: int = 0
    ) -> dict[str, Any]:
        """Return the tool's own result.

        Args:
            arguments: words after `vllm bench serve`.
            asked: the requests.
            seconds: after which no further one is asked; 0 = all are.

        Raises:
            JobError: it has none.
        """
        assert self._process.stdin
        assert self._process.stdout
        line = ""
        try:
            order = {"arguments": arguments, "requests": asked, "seconds": seconds}
            print(json.dumps(order), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline(_MOST)
            answer = json.loads(line or "{}")
        except OSError as error:
            answer = {"error": str(error)}
        except ValueError:
            # So says Docker, at the place of an answer, why it cannot begin.
            answer = {"error": line.strip()[:300]}
        if "ttfts" not in answer:
            said = answer.get("error", "it ended in the middle")
            raise JobError(
                f"vLLM's benchmark gave no result: {said}. Its words: `journalctl -u benchmark`. "
                "Does the engine still serve? Then run again."
            )
        return dict(answer)


def arguments(orders: Mapping[str, Any], workload: Mapping[str, Any], number: int) -> list[str]:
    """Return the words after `vllm bench serve`, for vLLM 0.17 to 0.33.

    Args:
        orders: the manifest.
        workload: one of its workloads.
        number: requests of this run.
    """
    words = ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]
    words += ["--base-url", "http://localhost", "--model", orders["model"]]
    words += ["--tokenizer", orders["tokenizer"]]
    # The server has the template; a trial request would warm its cache.
    words += ["--skip-chat-template", "--ready-check-timeout-sec", "0", "--disable-tqdm"]
    words += ["--num-prompts", str(number), "--max-concurrency", str(workload["concurrency"])]
    words += ["--custom-output-len", "-1", "--temperature", str(workload["temperature"])]
    words += ["--extra-body", json.dumps({"chat_template_kwargs": {"enable_thinking": False}})]
    if LONG not in workload["prompts"] and not workload["seconds"]:
        # Kernels and connections of a first request; a long prompt must find a cold cache.
        words += ["--num-warmups", "1"]
    return [*words, "--ignore-eos"] if workload["whole"] else words


def run_of(result: Mapping[str, Any], began: float) -> dict[str, Any]:
    """Return what the tool tells of one run.

    Args:
        result: the tool's own; its clock is the monotonic one, the same in all containers.
        began: seconds on that clock from which times are counted.
    """
    answered, errors = result["output_lens"], result["errors"]
    asked = [each for each in range(len(answered)) if errors[each] != TIME_IS_UP]
    # Several releases count a stream that breaks off as a success.
    good = [each for each in asked if answered[each] and not errors[each]]
    failed = sorted(set(asked) - set(good))
    decoding = [sum(gaps) * 1000 for gaps in result["itls"]]
    started = min(result["start_times"][each] for each in asked) - began
    return {
        "started": round(started, 3),
        "ended": round(started + result["duration"], 3),
        "input_tokens": [result["input_lens"][each] for each in good],
        "output_tokens": [answered[each] for each in good],
        "ttft_ms": [round(result["ttfts"][each] * 1000, 3) for each in good],
        "tpot_ms": [
            round(decoding[each] / (answered[each] - 1), 3) if answered[each] > 1 else 0
            for each in good
        ],
        "errors": [_last_line(errors[each]) or "no token came" for each in failed],
    }


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:300]


class Measurement:
    """One benchmark, from its orders to its result.

    Args:
        orders: the manifest.
    """

    def __init__(self, orders: Mapping[str, Any]) -> None:
        self._orders = orders
        self._started, self._began = time.time(), time.monotonic()
        self._engine = MeasuredEngine(Path(orders["place"]), orders["release"], orders["model"])
        self._done: list[dict[str, Any]] = []
        self.given_up = ""

    def measure(self) -> tuple[str, int, int]:
        """Return the phase, and the workloads that are done of all."""
        return "measuring", len(self._done), len(self._orders["workloads"])

    def result(self, progress: Progress) -> dict[str, Any]:
        """Measure everything, or what can be until the engine or the tool gives up.

        Raises:
            JobError: nothing could be measured.
        """
        start = self._engine.start(self._orders["start"])
        before, thinking = self._engine.others(), self._engine.thinks()
        context = self._engine.context()
        tool = Tool(f"vllm-{self._orders['release']}")
        with Gpu(self._began) as gpu:
            for workload in self._orders["workloads"]:
                progress.message = workload["name"]
                try:
                    self._done.append(self._of(workload, context, tool))
                except JobError as stop:
                    if not self._done:
                        raise
                    self.given_up = f"{workload['name']}: {stop}"
                    break
        progress.message = ""
        known = ("replica", "recipe", "release", "vllm", "model", "hardware", "sparks")
        return {
            "format": 1,
            **{key: self._orders[key] for key in known},
            "started": self._started,
            "ended": time.time(),
            "start": start,
            "before": before,
            "workloads": self._done,
            "gpu": gpu.samples,
            "log": {"network": self._engine.network(), "thinking": thinking},
            "given_up": self.given_up,
        }

    def _of(self, workload: Mapping[str, Any], context: int, tool: Tool) -> dict[str, Any]:
        name = workload["name"]
        if workload["context"] > context:
            why = f"needs {workload['context']:,} tokens of context; max-model-len is {context:,}"
            return {"name": name, "skipped": why, "runs": []}
        nonce = f"{name}-{int(self._started):x}"
        asked = requests(workload, self._orders["passages"], nonce, self._engine.tokens)
        runs = []
        for label in workload["runs"]:
            now = asked[:1] if label == COLD else asked
            before, before_at = self._engine.counters()
            words = arguments(self._orders, workload, len(now))
            result = tool.run(words, now, workload["seconds"])
            after, after_at = self._engine.counters()
            run = {"label": label, "concurrency": workload["concurrency"]}
            run |= run_of(result, self._began)
            run |= {key: after[key] - before[key] for key in after}
            # A label comes with its first draft.
            before_at += [0] * (len(after_at) - len(before_at))
            accepted = [new - old for old, new in zip(before_at, after_at, strict=True)]
            runs.append(run | {"accepted_at": accepted})
        return {"name": name, "skipped": None, "runs": runs}


def main(root: Path) -> None:
    """Do the job; every end but success is raised."""
    orders = json.loads((root / "manifests" / "benchmark.json").read_text("utf-8"))
    measurement = Measurement(orders)
    with Progress(root / "jobs" / "benchmark.json", measurement.measure) as progress:
        result = measurement.result(progress)
        replace(root / "benchmarks" / "latest.json", json.dumps(result) + "\n", durable=True)
        if measurement.given_up:
            raise JobError(measurement.given_up)


def command() -> None:
    """Measures what ROOT/manifests/benchmark.json asks for."""
    (root,) = words(__doc__, "ROOT")
    run_job(lambda: main(Path(root)))
