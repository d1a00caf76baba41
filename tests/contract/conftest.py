"""The engines under test, each started once for many cases."""

import os
import platform
from collections.abc import Callable, Iterator

import pytest

from tests.contract import engines
from tests.contract.engines import Running
from tests.lab.engine_image import Engine
from tests.lab.setup import missing_packages

# The product's own programs are clients here.

Start = Callable[..., Running]


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    """A machine that can make the images, and namespaces."""
    if os.geteuid():
        pytest.skip("the contract's engines run in namespaces: it needs root")
    if platform.machine() != "x86_64":
        pytest.skip(f"the engine image is for x86_64; this machine is {platform.machine()}")
    if missing := missing_packages():
        pytest.skip(f"the lab needs packages: apt-get install {' '.join(missing)}")


@pytest.fixture(scope="session", params=["vllm", "stand-in"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """The engine that is under test."""
    name: Engine = request.param
    return name


@pytest.fixture(scope="session")
def start(
    machine: None, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Start]:
    """Start the engine, as `engines.start` does; at the end none is left."""
    folder, begun = tmp_path_factory.mktemp(engine), list[Running]()

    def do(*words: str, **options: object) -> Running:
        log = folder / f"{len(begun)}.log"
        begun.append(engines.start(engine, words, log, **options))  # type: ignore[arg-type]
        return begun[-1]

    yield do
    for running in begun:
        running.stop()


@pytest.fixture(scope="session")
def kept() -> dict[str, Running]:
    """The engines that run now, for the next case."""
    return {}


@pytest.fixture
def serving(start: Start, kept: dict[str, Running]) -> Running:
    """An engine that serves the recipe lab-tiny; another one if a case has ended the last."""
    if "one" not in kept or not kept["one"].alive:
        kept["one"] = start(*engines.line())
        kept["one"].wait_ready()
    return kept["one"]


@pytest.fixture
def pair(start: Start, kept: dict[str, Running]) -> tuple[Running, Running]:
    """Two ranks that serve the recipe together, on two addresses of one network."""
    if "head" not in kept or not (kept["head"].alive and kept["worker"].alive):
        interface = {"GLOO_SOCKET_IFNAME": "lo"}
        head = start(*engines.line(2), variables={**interface, "VLLM_HOST_IP": engines.MASTER})
        worker = start(
            *engines.line(2, rank=1),
            network=head,
            variables={**interface, "VLLM_HOST_IP": "127.0.0.2"},
        )
        kept.update(head=head, worker=worker)
        head.wait_ready()
    return kept["head"], kept["worker"]
