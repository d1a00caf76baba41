"""How an engine starts, hangs, dies and ends, and what its two ranks have to do with each other."""

import asyncio
import json
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from host.common import probe
from host.state.engine_api import LOAD
from sparkwright.common.paths import PLUGIN
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.causes.log_causes import Journal, table
from tests.contract import engines, facts
from tests.contract.conftest import Start, copied
from tests.contract.engines import COMPLETIONS, PATIENCE, RELEASE, Running, chat, until
from tests.contract.test_metrics import samples, settled, value
from tests.lab.engine_image import Engine

LONG = chat(max_tokens=2000, ignore_eos=True)
DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
CORE, WORKER = "VLLM::EngineCor", "VLLM::Worker"


def generated(serving: Running) -> float:
    return value(serving, "generation_tokens_total")


@contextmanager
def in_flight(serving: Running, body: dict[str, Any]) -> Iterator[list[str]]:
    """Have a whole and a streamed answer under way; what they were is in the list at the end."""
    texts: list[str] = []
    begun = generated(serving)

    def ask(stream: bool) -> None:
        try:
            texts.append(serving.ask(COMPLETIONS, {**body, "stream": stream}).text)
        except requests.RequestException as error:
            texts.append(repr(error))

    threads = [threading.Thread(target=ask, args=(stream,)) for stream in (False, True)]
    for thread in threads:
        thread.start()
    until(lambda: generated(serving) >= begun + 4, "tokens")
    try:
        yield texts
    finally:
        for thread in threads:
            thread.join()


def broken_off(texts: list[str]) -> bool:
    """Whether both answers say that the engine died; the stream then says that it is done."""
    whole, stream = sorted(texts, key=lambda text: text.startswith("data:"))
    *_, error, done = [line for line in stream.splitlines() if line]
    told = [json.loads(text)["error"] for text in (whole, error.removeprefix("data: "))]
    return [(each["message"], each["code"]) for each in told] == [(DEAD, 500)] * 2 and (
        done == "data: [DONE]"
    )


def test_the_command_line(engine: Engine) -> None:
    """Every flag of vLLM's is known, with what it takes; nothing else is."""
    lines: dict[str, list[str]] = {
        "the recipe's": engines.line(),
        "a rank's": engines.line(2, rank=1),
        "abbreviated": ["serve", "m", "--max-num-seq", "4"],
        "no": ["serve", "m", "--no-enforce-eager"],
        "unknown": ["serve", "m", "--no-such-flag", "1"],
        "a word": ["serve", "m", "--max-num-seqs", "many"],
        "a choice": ["serve", "m", "--dtype", "int3"],
        "nothing": ["serve", "m", "--port"],
    }
    found = facts.inside(engine, *lines.values())
    assert found["flags"] == facts.CAPTURED["flags"]
    words = {
        name: text for name, (status, text) in zip(lines, found["judged"], strict=True) if status
    }
    assert words == {
        "unknown": "vllm: error: unrecognized arguments: --no-such-flag 1",
        "a word": "vllm serve: error: argument --max-num-seqs: invalid int value: 'many'",
        "a choice": "vllm serve: error: argument --dtype: invalid choice: 'int3' (choose from "
        "'auto', 'bfloat16', 'float', 'float16', 'float32', 'half')",
        "nothing": "vllm serve: error: argument --port: expected one argument",
    }
    assert {status for status, _ in found["judged"]} == {None, 2}


def drop(name: str) -> Callable[[Path], None]:
    return lambda model: (model / name).unlink()


def cut(model: Path) -> None:
    file = next(model.glob("*2-of-*.safetensors"))
    file.write_bytes(file.read_bytes()[:-100])


REFUSED = {
    "a flag": ({"--seed": "--no-such-flag"}, None, 2, "unknown-flag"),
    "context": ({"4096": "99999999"}, None, 1, "context-beyond-model"),
    "parser": ({"lab_scripted": "nope"}, None, 1, "unknown-parser"),
    "damaged weights": ({}, cut, 1, "broken-weights"),
    "absent weights": ({}, drop("model-00002-of-00004.safetensors"), 1, "files-absent"),
    "no configuration": ({}, drop("config.json"), 1, "files-absent"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_start_that_fails(start: Start, damaged: Any, case: str) -> None:
    """By its exit status, and by words in which the doctor finds the cause."""
    changes, damage, status, cause = REFUSED[case]
    running = start(*engines.line(**changes), models=damaged(damage) if damage else None)
    assert running.wait() == status
    log = running.log.read_text()
    named = [each.name for each in table("start") if each.evidence(Journal(log.splitlines()))]
    assert named == [cause], log[-2000:]


# Beside the product's own, a plugin that says how each reader of a queue waits.
_SAYS = """
import sys
def register():
    from vllm.distributed.device_communicators.shm_broadcast import MessageQueue, SpinCondition
    made = MessageQueue.create_from_handle
    def saying(handle, rank):
        print("a reader waits by", SpinCondition.wait.__name__, file=sys.stderr)
        return made(handle, rank)
    MessageQueue.create_from_handle = staticmethod(saying)
"""


def with_plugins(model: Path) -> None:
    folder = model.parent / "plugin"
    shutil.copytree(PLUGIN, folder)
    (folder / "says.py").write_text(_SAYS)
    shutil.copytree(folder / "sparkwright_wait-1.dist-info", folder / "says-1.dist-info")
    (folder / "says-1.dist-info/METADATA").write_text("Name: says\nVersion: 1\n")
    entry = "[vllm.general_plugins]\nsays = says:register\n"
    (folder / "says-1.dist-info/entry_points.txt").write_text(entry)


# The stand-in has neither queues nor plugins.
@pytest.mark.parametrize("engine", ["vllm"], indirect=True)
@pytest.mark.usefixtures("engine")
def test_the_readers_of_a_pair_wait_by_the_plugin(start: Start, damaged: Any) -> None:
    models = damaged(with_plugins)
    own = {"GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": "/mnt/plugin"}
    head = start(*engines.line(2), models=models, variables=own | {"VLLM_HOST_IP": engines.MASTER})
    other = own | {"VLLM_HOST_IP": "127.0.0.2"}
    worker = start(*engines.line(2, rank=1), models=models, network=head, variables=other)
    head.wait_ready()
    assert head.ask(COMPLETIONS, chat()).ok
    log = head.log.read_text()
    assert "vLLM waits as it does by itself" not in log
    # EngineCore of either worker, and a worker of EngineCore.
    assert re.findall(r"a reader waits by (\w+)", log) == ["napping"] * 3, log[-3000:]
    worker.stop()
    head.stop()


def test_a_core_that_hangs(serving: Running, watchful: None) -> None:
    """HTTP goes on, counters stand still, and the product's watch notices. It may go on later."""
    engine = probe.Engine(serving.root, RELEASE, "tiny")
    for process in (CORE, WORKER):
        with in_flight(serving, chat(max_tokens=600, ignore_eos=True)) as texts:
            serving.signal(process, signal.SIGSTOP)
            assert serving.ask("/health").ok
            said = asyncio.run(asyncio.wait_for(probe.watch(engine), PATIENCE))
            assert "no token" in said
            assert "3 times in a row" in said
            assert serving.ask("/health").ok
            assert not texts
            serving.signal(process, signal.SIGCONT)
        assert [text for text in texts if '"error"' in text] == []


@pytest.mark.parametrize("engine", ["vllm"], indirect=True)
@pytest.mark.usefixtures("engine")
def test_each_copy_of_a_model_is_asked_by_its_number(start: Start, watchful: None) -> None:
    """Of a dense model, one goes on while another hangs; its counters are its own."""
    recipe = load_recipe(engines.EMBEDDING)
    args = {name: each for name, each in recipe.args.items() if name != "runner"}
    recipe = recipe.model_copy(update={"args": args, "answers": "chat"})
    head, worker = copied(start, recipe, "--chat-template", "{{ messages[0].content }}")
    unit = {"model": recipe.served_names[0], "answers": "chat", "copies": 2}
    copies = probe.engines(head.root, RELEASE, unit)
    for asked, other in (copies, copies[::-1]):
        before = asyncio.run(asked.counters()), asyncio.run(other.counters())
        asyncio.run(asyncio.wait_for(asked.token(), PATIENCE))
        while asyncio.run(asked.counters()) == before[0]:
            time.sleep(0.1)
        assert asyncio.run(other.counters()) == before[1]
    worker.signal(CORE, signal.SIGSTOP)
    for _ in range(3):
        asyncio.run(asyncio.wait_for(copies[0].token(), PATIENCE))
    assert "no token" in asyncio.run(asyncio.wait_for(probe.watch(copies[1]), PATIENCE))
    asyncio.run(asyncio.wait_for(copies[0].token(), PATIENCE))
    worker.signal(CORE, signal.SIGCONT)
    worker.stop()
    head.stop()


def test_a_first_step_under_way_shows_in_no_metric(serving: Running) -> None:
    """An idle engine that hangs says what a busy one says during the first step of a prompt."""
    settled(serving)
    before = samples(serving, LOAD)
    serving.signal(WORKER, signal.SIGSTOP)
    with pytest.raises(requests.Timeout):
        serving.ask(COMPLETIONS, chat(max_tokens=1), timeout=2)
    assert samples(serving, LOAD) == before
    assert value(serving, "num_requests_running") == 0
    serving.signal(WORKER, signal.SIGCONT)
    settled(serving)


def test_a_pair(pair: tuple[Running, Running], serving: Running) -> None:
    """It says what one says; the ranks talk while they write, and only then."""
    head, worker = pair

    def traffic() -> int:
        counts = Path(f"/proc/{head.server}/net/dev").read_text().partition(" lo:")[2]
        return int(counts.split()[0])

    body = chat(max_tokens=16, ignore_eos=True)
    before = traffic()
    answers = [one.ask(COMPLETIONS, body).json()["choices"][0] for one in (head, serving)]
    after = traffic()
    assert answers[0]["message"]["content"] == answers[1]["message"]["content"]
    assert after - before > 200_000
    assert head.ask("/health").ok
    time.sleep(1)
    assert traffic() - after < 10_000
    assert [len(worker.pids(name)) for name in (CORE, WORKER)] == [0, 1]
    listening = Path(f"/proc/{head.server}/net/tcp6").read_text().split("\n")
    # All addresses, port 29501, listening.
    assert any(f"{'0' * 32}:733D" in line and " 0A " in line for line in listening)


def test_a_rank_that_hangs_and_dies(pair: tuple[Running, Running]) -> None:
    """The head notices nothing of a silent rank, and of a dead one when it needs it."""
    head, worker = pair
    with in_flight(head, LONG) as texts:
        worker.signal(WORKER, signal.SIGSTOP)
        # What was on its way still comes.
        seen = [-1.0, generated(head)]

        def silent() -> bool:
            time.sleep(0.5)
            seen.append(generated(head))
            return seen[-1] == seen[-2]

        until(silent, "silence")
        with pytest.raises(requests.Timeout):
            head.ask(COMPLETIONS, chat(max_tokens=1), timeout=2)
        assert generated(head) == seen[-1]
        assert head.ask("/health").ok
        assert not texts
        worker.signal(WORKER, signal.SIGKILL)
    assert worker.wait() == 0
    assert broken_off(texts)
    assert head.wait() == 0


@pytest.mark.parametrize(
    ("process", "number"),
    [(CORE, signal.SIGKILL), (WORKER, signal.SIGKILL), (WORKER, signal.SIGTERM)],
)
def test_a_process_that_dies(serving: Running, process: str, number: signal.Signals) -> None:
    """Clients are told, and the server ends, as if nothing were wrong."""
    with in_flight(serving, LONG) as texts:
        serving.signal(process, number)
    assert broken_off(texts)
    assert serving.wait() == 0


def test_a_stop(serving: Running) -> None:
    """What is in flight is finished, nothing new is begun, and then it ends in order."""
    with in_flight(serving, chat(max_tokens=300, ignore_eos=True)) as texts:
        serving.signal("vllm", signal.SIGTERM)
        # The signal takes a moment to arrive.
        refused: list[requests.Response] = []

        def draining() -> bool:
            answer = serving.ask(COMPLETIONS, chat(max_tokens=1))
            refused.extend([] if answer.ok else [answer])
            return not answer.ok

        until(draining, "a refusal")
        (answer,) = refused
        assert serving.ask("/health").ok
        assert answer.status_code == 500
        message = "cannot schedule new futures after shutdown"
        assert answer.json()["error"]["message"] == message
    assert [text for text in texts if '"error"' in text] == []
    assert serving.wait() == 0
