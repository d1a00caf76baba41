"""The engines under test, each started once for many cases."""

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from host.common import probe
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.release.command import serve_arguments
from tests.contract import engines
from tests.contract.engines import Running
from tests.lab import tiny_model
from tests.lab.engine_image import Engine
from tests.lab.setup import missing_packages
from tests.makers.release import numbered

Start = Callable[..., Running]
Serve = Callable[[str], Running]


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    if os.geteuid():
        pytest.skip("the contract's engines run in namespaces: it needs root")
    if platform.machine() != "x86_64":
        pytest.skip(f"the engine image is for x86_64; this machine is {platform.machine()}")
    if missing := missing_packages():
        pytest.skip(f"the lab needs packages: apt-get install {' '.join(missing)}")


@pytest.fixture(scope="session", params=["vllm", "stand-in"])
def engine(request: pytest.FixtureRequest) -> Engine:
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


def copied(start: Start, recipe: Recipe, *more: str) -> list[Running]:
    """Return two Sparks with a copy of the lab's model for texts each, of which the head serves."""
    recipe = recipe.model_copy(update={"args": recipe.args | {"data-parallel-size": 2}})
    models = engines.RECIPES[engines.EMBEDDING]()
    folder, ranks = f"/models/{recipe.checkpoints['model'].folder}", list[Running]()
    own = {"GLOO_SOCKET_IFNAME": "lo", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    for rank in range(2):
        words = [*serve_arguments(recipe, numbered(2, rank, engines.MASTER)), *more]
        words = [each.replace(folder, engines.MODEL) for each in words]
        network, address = ranks[0] if ranks else None, {"VLLM_HOST_IP": f"127.0.0.{rank + 1}"}
        ranks.append(start(*words, models=models, network=network, variables=own | address))
    ranks[0].wait_ready()
    return ranks


@pytest.fixture(scope="session")
def kept() -> dict[str, Running]:
    return {}


@pytest.fixture
def serve(start: Start, kept: dict[str, Running]) -> Serve:
    """Have an engine that serves a recipe; another one if a case has ended the last."""

    def do(recipe: str) -> Running:
        if recipe not in kept or not kept[recipe].alive:
            kept[recipe] = start(*engines.line(recipe=recipe), models=engines.RECIPES[recipe]())
            kept[recipe].wait_ready()
        return kept[recipe]

    return do


@pytest.fixture(params=engines.RECIPES)
def recipe(request: pytest.FixtureRequest) -> str:
    """Each recipe of the lab: one that completes, one that embeds, one that scores."""
    name: str = request.param
    return name


@pytest.fixture
def served(recipe: str, serve: Serve) -> Running:
    return serve(recipe)


@pytest.fixture
def watched(recipe: str, served: Running) -> probe.Engine:
    """The engine as its supervisor sees it."""
    found = load_recipe(recipe)
    return probe.Engine(served.root, engines.RELEASE, found.served_names[0], found.answers)


@pytest.fixture
def serving(serve: Serve) -> Running:
    return serve(engines.CHAT)


@pytest.fixture
def pair(start: Start, kept: dict[str, Running]) -> tuple[Running, Running]:
    """Two ranks that serve the recipe together, on two addresses of one network."""
    if "head" not in kept or not (kept["head"].alive and kept["worker"].alive):
        own = {"GLOO_SOCKET_IFNAME": "lo", "VLLM_HOST_IP": engines.MASTER}
        head = start(*engines.line(2), variables=own)
        own = own | {"VLLM_HOST_IP": "127.0.0.2"}
        worker = start(*engines.line(2, rank=1), network=head, variables=own)
        kept.update(head=head, worker=worker)
        head.wait_ready()
    return kept["head"], kept["worker"]


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("INTERVAL", 0.0), ("TOKEN_DEADLINE", 1.0), ("COUNTERS_DEADLINE", 1.0)):
        monkeypatch.setattr(probe, name, seconds)


@pytest.fixture(scope="session")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], object]], Path]:
    def do(damage: Callable[[Path], object]) -> Path:
        folder = tmp_path_factory.mktemp("damaged") / "models"
        shutil.copytree(tiny_model.ensure_models(), folder)
        damage(folder / "model")
        return folder

    return do
