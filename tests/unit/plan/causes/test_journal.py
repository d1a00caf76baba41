"""What of a log counts: an engine that serves is evidence, and what is quoted is not said."""

import pytest

from sparkwright.plan.causes.cause import Journal
from sparkwright.plan.causes.log_causes import from_log

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


def test_an_error_that_names_something_in_quotes_is_said() -> None:
    assert names("NCCL WARN Cuda failure 2 'out of memory'") == ["cuda-out-of-memory"]


@pytest.mark.parametrize("line", [OOM, KILLED, NEGATIVE, HEAD, "OSError: [Errno 28] No space left"])
def test_what_did_not_stop_an_engine_is_no_cause(line: str) -> None:
    assert names(line, READY, active=True) == []
    assert names(READY, ANSWER, line, active=True) == []


def test_what_an_engine_met_before_it_served_did_not_end_it() -> None:
    assert names(HEAD, READY, ANSWER, OOM) == ["cuda-out-of-memory"]
    assert names(HEAD) == ["rank-unreached"]


def test_an_engine_that_died_does_not_serve_though_its_unit_is_active() -> None:
    assert names(READY, ANSWER, OOM, DEAD, active=True) == ["cuda-out-of-memory"]
    assert names(DEAD, READY, ANSWER, active=True) == []


def test_the_end_of_the_run_before_counts_beside_a_restart_that_serves() -> None:
    assert names(BEGIN, READY, OOM, BEGIN, READY, ANSWER) == ["cuda-out-of-memory"]


def test_a_retry_that_ended_well_is_past() -> None:
    log = [BEGIN, "INFO 11-22 10:00:00 [x.py:1] retrying: No space left on device", READY]
    assert names(*log, active=True) == []


def test_a_figure_that_comes_right_is_no_cause() -> None:
    assert names(NEGATIVE) == ["negative-graph-estimate"]
    assert names(NEGATIVE, RIGHT) == []
    assert names(NEGATIVE, RIGHT, NEGATIVE) == ["negative-graph-estimate"]


def test_what_lasts_is_named_beside_an_engine_that_serves() -> None:
    assert names(SOCKETS, READY, ANSWER, active=True) == ["nccl-on-sockets"]


def test_the_first_sign_of_a_lost_rank_is_named_while_the_unit_is_active() -> None:
    assert names(READY, ANSWER, PEER, active=True) == ["peer-closed"]
    assert names(PEER, READY, ANSWER, active=True) == []


def test_a_reason_comes_before_a_symptom() -> None:
    timed_out = "engine ended: the engine did not answer within 1800 s"
    assert names(timed_out, PEER, "CUDA error: an illegal memory access was encountered") == [
        "illegal-address",
        "peer-closed",
        "start-too-long",
    ]


def test_what_only_suggests_a_cause_gives_way_to_a_reason() -> None:
    system = "RuntimeError: NCCL error: unhandled system error"
    registered = "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"
    assert names(system) == ["rdma-gid"]
    assert names(system, PEER) == ["rdma-gid", "peer-closed"]
    assert names(system, registered) == ["kernel-kho"]
    assert guesses(system, registered)[:1] == ["rdma-gid"]


def test_guesses_fill_up_to_three_causes_and_no_more() -> None:
    assert names(OOM) == ["cuda-out-of-memory"]
    assert guesses(OOM) == ["free-memory-at-start", "kv-cache-too-small"]
    full = "OSError: [Errno 28] No space left on device", "EADDRINUSE", OOM
    assert guesses(*full) == []
    assert guesses("serving") == []


def test_what_refuses_a_start_is_not_seen_in_a_request_that_was_refused() -> None:
    refused = "  Extra inputs are not permitted [type=extra_forbidden, input_value=1]"
    assert names(refused) == ["unknown-flag"]
    assert names(BEGIN, READY, refused, OOM) == ["cuda-out-of-memory"]
    assert names(BEGIN, READY, BEGIN, refused) == ["unknown-flag"]


def test_a_warning_is_no_error() -> None:
    assert names("WARNING 11-22 10:00:00 [x.py:1] ImportError: no deep_gemm; not used") == []
    assert Journal(["a", "WARNING 11-22 10:00:00 b"]).lines(mild=False) == ["a"]
