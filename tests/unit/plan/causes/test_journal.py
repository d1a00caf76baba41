"""What of a log counts: an engine that serves is evidence, and what is quoted is not said.

Other words for known causes are in words.yaml; the log of each stands in tests/unit/logs.
"""

from pathlib import Path

import pytest
import yaml

from sparkwright.plan.causes.log_causes import from_log

WORDS = {
    line: name
    for name, lines in yaml.safe_load(Path(__file__).with_name("words.yaml").read_text()).items()
    for line in lines
}
HARMLESS = (
    "INFO 11-21 07:19:23 [gpu_worker.py:462] Available KV cache memory: 2.26 GiB",
    "WARNING 11-21 07:19:23 [x.py:1] ImportError: cannot import name 'deep_gemm'; not used",
    "No valid triton configs. OutOfResources: out of resource: triton_mm Required: 131072",
    "NCCL INFO Call to connect returned Connection refused, retrying",
    "NVRM: Xid (PCI:000f:01:00): 45, pid=1, Ch 00000008",
)
READY = "(APIServer pid=1) INFO:     Application startup complete."
ANSWER = '(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
BEGIN = "Starting vllm@x-0a1b2c3d.service - vLLM release x-0a1b2c3d..."
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
DEAD = "(APIServer pid=1) ERROR 11-22 10:00:00 [x.py:1] EngineDeadError"
KILLED = "Out of memory: Killed process 9 (comfyui) total-vm:9kB, anon-rss:9kB"
NEGATIVE = "INFO 11-22 10:00:00 [x.py:1] Estimated CUDA graph memory: -5.39 GiB total"
RIGHT = "INFO 11-22 10:00:09 [x.py:1] Estimated CUDA graph memory: 0.41 GiB total"
HEAD = "[c10d] The client socket has failed to connect to [spark-a]:29501 (errno: 111)"
PEER = "spark-a:1:2 [0] NCCL WARN socketProgress: Connection closed by remote peer spark-b<4>"
SOCKETS = "spark-a:1:2 [0] NCCL INFO NET/IB : No device found."
TIMED_OUT = "engine ended: the engine did not answer within 1800 s"
ILLEGAL = "CUDA error: an illegal memory access was encountered"
SYSTEM = "RuntimeError: NCCL error: unhandled system error"
REGISTERED = "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"
EXTRA = "  Extra inputs are not permitted [type=extra_forbidden, input_value=1]"
QUOTES = (
    f"INFO 11-22 10:00:00 [x.py:1] Received request chatcmpl-1: prompt: 'why {OOM}', params: x",
    "DEBUG 11-22 10:00:00 [x.py:1] Request chatcmpl-1 details: prompt: 'ModuleNotFoundError: '",
    f"INFO 11-22 10:00:00 [x.py:1] Generated response chatcmpl-1: output: '{OOM}', finish: stop",
    f'ERROR 11-22 10:00:00 [x.py:1] a bad request: {{"role": "user", "content": "{OOM}"}}',
    "ERROR 11-22 10:00:00 [x.py:1] no tool call in text='it said: Address already in use'",
    '127.0.0.1:5 - "POST /v1/completions?why=No%20space%20left%20on%20device HTTP/1.1" 400',
    f'tool_parser: arguments: \'{{"log": "{KILLED}"}}\'',
    f"prompt='a line cut short by the journal: {OOM}",
)


def names(*log: str, active: bool = False) -> list[str]:
    return [each.name for each in from_log(log, active=active) if not each.guess]


def guesses(*log: str) -> list[str]:
    return [each.name for each in from_log(log) if each.guess]


@pytest.mark.parametrize("line", QUOTES)
@pytest.mark.parametrize("active", [True, False])
def test_what_is_quoted_is_not_said(line: str, active: bool) -> None:
    assert names(line, active=active) == []


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (["NCCL WARN Cuda failure 2 'out of memory'"], ["cuda-out-of-memory"]),
        # What an engine met before it served did not end it.
        ([HEAD, READY, ANSWER, OOM], ["cuda-out-of-memory"]),
        ([HEAD], ["rank-unreached"]),
        # The end of the run before counts beside a restart that serves.
        ([BEGIN, READY, OOM, BEGIN, READY, ANSWER], ["cuda-out-of-memory"]),
        # A figure that comes right is no cause.
        ([NEGATIVE], ["negative-graph-estimate"]),
        ([NEGATIVE, RIGHT], []),
        ([NEGATIVE, RIGHT, NEGATIVE], ["negative-graph-estimate"]),
        # A reason comes before a symptom.
        ([TIMED_OUT, PEER, ILLEGAL], ["illegal-address", "peer-closed", "start-too-long"]),
        # What only suggests a cause gives way to a reason.
        ([SYSTEM], ["rdma-gid"]),
        ([SYSTEM, PEER], ["rdma-gid", "peer-closed"]),
        ([SYSTEM, REGISTERED], ["kernel-kho"]),
        # What refuses a start is not seen in a request that was refused.
        ([EXTRA], ["unknown-flag"]),
        ([BEGIN, READY, EXTRA, OOM], ["cuda-out-of-memory"]),
        ([BEGIN, READY, BEGIN, EXTRA], ["unknown-flag"]),
    ],
)
def test_what_counts(log: list[str], found: list[str]) -> None:
    assert names(*log) == found


@pytest.mark.parametrize("line", [OOM, KILLED, NEGATIVE, HEAD, "OSError: [Errno 28] No space left"])
def test_what_did_not_stop_an_engine_is_no_cause(line: str) -> None:
    assert names(line, READY, active=True) == []
    assert names(READY, ANSWER, line, active=True) == []


@pytest.mark.parametrize(
    ("log", "found"),
    [
        # An engine that died does not serve, though its unit is active.
        ([READY, ANSWER, OOM, DEAD], ["cuda-out-of-memory"]),
        ([DEAD, READY, ANSWER], []),
        # A retry that ended well is past.
        ([BEGIN, "INFO 11-22 10:00:00 [x.py:1] retrying: No space left on device", READY], []),
        # What lasts is named beside an engine that serves, and the first sign of a lost rank.
        ([SOCKETS, READY, ANSWER], ["nccl-on-sockets"]),
        ([READY, ANSWER, PEER], ["peer-closed"]),
        ([PEER, READY, ANSWER], []),
    ],
)
def test_what_counts_of_a_unit_that_is_active(log: list[str], found: list[str]) -> None:
    assert names(*log, active=True) == found


def test_guesses_fill_up_to_three_causes_and_no_more() -> None:
    assert guesses(SYSTEM, REGISTERED)[:1] == ["rdma-gid"]
    assert guesses(OOM) == ["free-memory-at-start", "kv-cache-too-small"]
    assert guesses("OSError: [Errno 28] No space left on device", "EADDRINUSE", OOM) == []
    assert guesses("serving") == []


@pytest.mark.parametrize("line", WORDS)
def test_other_words_for_a_cause(line: str) -> None:
    assert from_log([line])[0].name == WORDS[line]


@pytest.mark.parametrize("line", HARMLESS)
def test_words_that_tell_of_nothing(line: str) -> None:
    assert from_log([line]) == []
