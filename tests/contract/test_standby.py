"""An engine that waits as a standby: where, on what, and what its start saves."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from sparkwright.common.hardware import GIB
from sparkwright.common.paths import PLUGIN
from sparkwright.plan.memory.plan import STANDBY
from tests.contract import engines
from tests.contract.conftest import Start
from tests.contract.engines import COMPLETIONS, Running, chat, until
from tests.contract.test_life import CORE, WORKER
from tests.lab import tiny_model
from tests.lab.engine_image import Engine

VARIABLES = {"SPARKWRIGHT_STANDBY": "standby", "PYTHONPATH": "/mnt/plugin"}
UDS = ("--uds", "/run/vllm/standby.sock")
# What vLLM logs of its way to the GPU, and of its API's first template.
LOADS, WARM = "Starting to load model", "Detected the chat template content format"
IMAGES = "Multi-modal warmup completed"
TINY_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNocFAAAAIkAOGrWWInAAAAAElFTkSuQmCC"
)
SEEN = [
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TINY_PNG}"}},
    {"type": "text", "text": "What is it?"},
]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, and the plugins of the product beside it."""
    folder = tmp_path_factory.mktemp("standby") / "models"
    shutil.copytree(tiny_model.ensure_models(), folder)
    shutil.copytree(PLUGIN, folder / "plugin")
    return folder


@pytest.fixture(scope="session")
def forgetful(models: Path) -> Path:
    """The same, with a plugin that thinks itself forgotten after a second."""
    folder = models.with_name("forgetful")
    shutil.copytree(models, folder)
    module = folder / "plugin/sparkwright_standby.py"
    text = module.read_text()
    module.write_text(text.replace("FORGOTTEN = 0.1, 900", "FORGOTTEN = 0.1, 1"))
    assert module.read_text() != text
    return folder


def inside(running: Running) -> Path:
    return Path(f"/proc/{running.server}/root/run")


def waits(running: Running) -> None:
    def is_waiting() -> bool:
        assert running.alive, running.log.read_text()[-3000:]
        return (inside(running) / "vllm/waiting").exists()

    until(is_waiting, "a standby that waits")


def tell(running: Running) -> None:
    """Say the word, as the supervisor does."""
    folder = inside(running)
    if (folder / "vllm/standby.sock").exists():
        (folder / "vllm/standby.sock").rename(folder / "vllm/api.sock")
    (folder / "standby/go").touch()


def score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def own_bytes(pid: int) -> int:
    """Return the bytes of a process that no other has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def seconds(running: Running, begun: float) -> float:
    running.wait_ready()
    assert running.ask(COMPLETIONS, chat()).ok
    return time.monotonic() - begun


def test_it_waits_in_the_process_that_would_use_the_gpu(
    start: Start, models: Path, engine: Engine
) -> None:
    """Beside an engine that serves, which it does not disturb; it is its next start, and sooner."""
    begun = time.monotonic()
    serving = start(*engines.line(), models=models, variables={"PYTHONPATH": "/mnt/plugin"})
    plain = seconds(serving, begun)
    standby = start(*engines.line(), *UDS, models=models, variables=VARIABLES)
    waits(standby)
    assert LOADS not in standby.log.read_text()
    assert engine == "stand-in" or WARM in standby.log.read_text()
    (core,), (worker,) = standby.pids(CORE), standby.pids(WORKER)
    assert (score(worker), score(core)) == (900, score(standby.server))
    assert sorted(path.name for path in (inside(standby) / "vllm").iterdir()) == [
        "standby.sock",
        "waiting",
    ]
    assert serving.ask(COMPLETIONS, chat()).ok
    serving.stop()
    begun = time.monotonic()
    tell(standby)
    taken = seconds(standby, begun)
    print(f"a start: {plain:.1f} s; by a standby: {taken:.1f} s, {taken / plain:.2f} of it")
    # Of the stand-in, both are moments.
    assert engine == "stand-in" or taken < plain
    assert LOADS in standby.log.read_text()
    assert not (inside(standby) / "vllm/waiting").exists()
    assert score(worker) == score(core)
    standby.signal(CORE, signal.SIGKILL)
    assert standby.wait() == 0


# The stand-in sees nothing.
@pytest.mark.parametrize("engine", ["vllm"], indirect=True)
def test_one_that_sees_has_made_its_images(start: Start, models: Path) -> None:
    """Once, before it waits; what it says of one is what its next start would have said."""
    words = [word for word in engines.line() if word != "--language-model-only"]
    words += ["--limit-mm-per-prompt", '{"image": 1, "video": 0}']
    # The template knows no images: vLLM puts their places into the text.
    words += ["--chat-template-content-format", "string"]
    body = chat() | {"messages": [{"role": "user", "content": SEEN}]}
    serving = start(*words, models=models)
    serving.wait_ready()
    plain = serving.ask(COMPLETIONS, body).json()
    serving.stop()
    standby = start(*words, *UDS, models=models, variables=VARIABLES)
    waits(standby)
    assert standby.log.read_text().count(IMAGES) == 1
    own = sum(map(own_bytes, [*standby.pids(CORE), *standby.pids(WORKER), standby.server]))
    print(f"a standby that sees takes {own / GIB:.2f} GiB")
    assert own < STANDBY
    tell(standby)
    standby.wait_ready()
    answer = standby.ask(COMPLETIONS, body).json()
    assert answer["choices"] == plain["choices"]
    assert answer["usage"]["prompt_tokens"] > 64
    assert standby.log.read_text().count(IMAGES) == 1


def test_the_ranks_of_a_pair_wait_and_find_each_other(start: Start, models: Path) -> None:
    own = VARIABLES | {"GLOO_SOCKET_IFNAME": "lo"}
    head = start(
        *engines.line(2), *UDS, models=models, variables=own | {"VLLM_HOST_IP": engines.MASTER}
    )
    other = own | {"VLLM_HOST_IP": "127.0.0.2"}
    worker = start(*engines.line(2, rank=1), models=models, network=head, variables=other)
    for rank in (head, worker):
        waits(rank)
        assert [score(pid) for pid in rank.pids(WORKER)] == [900]
    for rank in (worker, head):
        tell(rank)
    head.wait_ready()
    assert head.ask(COMPLETIONS, chat()).ok
    worker.stop()
    head.stop()


def test_one_that_is_killed_or_forgotten_ends(start: Start, models: Path, forgetful: Path) -> None:
    killed, forgotten = (
        start(*engines.line(), *UDS, models=each, variables=VARIABLES)
        for each in (models, forgetful)
    )
    waits(killed)
    os.kill(killed.pids(WORKER)[0], signal.SIGKILL)
    assert killed.wait() == 1
    assert forgotten.wait() == 1
    for each in (killed, forgotten):
        assert LOADS not in each.log.read_text()
