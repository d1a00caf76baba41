"""What the product holds of vLLM's releases, asked of each that a recipe names."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.paths import PLUGIN
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.vllm_names import number, releases, table
from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from sparkwright.plan.release.command import Ranks, environment, serve_arguments
from tests.recipes.environment import INSIDE, run_script
from tests.recipes.releases import files, known

RELEASES = {load_recipe(name).judge: load_recipe(name) for name in recipe_names()}
TEXT_CONFIG = Path(__file__).with_name("text_config.py")


@cache
def said(release: str, domains: tuple[str, ...] = ()) -> dict[str, Any]:
    """Ask a release with the domains and variables of the line that a unit would run."""
    recipe = RELEASES[release].from_domains(domains)
    words = serve_arguments(recipe, Ranks())
    start = words.index("--allowed-media-domains") + 1
    end = next(at for at in range(start, len(words)) if words[at].startswith("--"))
    name = "VLLM_MEDIA_URL_ALLOW_REDIRECTS"
    request = {"domains": words[start:end], "variables": {name: environment(recipe)[name]}}
    return dict(json.loads(run_script(release, INSIDE / "media.py", text=json.dumps(request))))


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_no_address_is_asked_for_media(release: str) -> None:
    told = said(release)
    assert told["seen"] == []
    fetched = [url for url, outcome in told["outcomes"].items() if outcome == "image"]
    assert fetched == ["data"]


@pytest.mark.parametrize("release", ["0.17.0", "0.32.0"])
def test_a_host_that_the_owner_named_is_asked_and_leads_nowhere_else(release: str) -> None:
    told = said(release, ("127.0.0.1",))
    outcomes = told["outcomes"]
    assert (outcomes["data"], outcomes["address"]) == ("image", "image")
    assert "image" not in (outcomes["name"], outcomes["moved"], outcomes["file"])
    assert "/moved" in told["seen"]
    assert "/elsewhere" not in told["seen"]


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_the_table_has_the_names_of_the_release(release: str) -> None:
    at = number(release)
    assert at in releases()
    assert set(said(release)["names"]) == {
        name for name, known in table().items() if known.first <= at <= known.last
    }


@pytest.mark.parametrize("overridden", [True, False])
def test_the_tables_dtype_reaches_the_model(overridden: bool) -> None:
    recipe = load_recipe("qwen3.8-flash-next-b12x")
    known = checkpoint_data(recipe.checkpoints["model"].repo)
    args = {"hf_overrides": recipe.args["hf-overrides"]} if overridden else {}
    request = {"config": known.config, "args": args, "key": "ple_embedding_dtype"}
    said = json.loads(run_script(recipe.judge, TEXT_CONFIG, text=json.dumps(request)))
    assert said == ("nvfp4" if overridden else None)


@pytest.mark.parametrize(("version", "leaves_them"), [("0.18.0", False), ("0.19.0", True)])
def test_a_release_that_leaves_the_scales_of_hybrids_alone(version: str, leaves_them: bool) -> None:
    source = files(version) / "vllm/model_executor/models/config.py"
    assert ("Disabling calculate_kv_scales for hybrid model" in source.read_text()) is leaves_them


# A process that reads a real queue of vLLM's, a message each 30 ms, with and without the plugin.
_QUEUE = """
import json, multiprocessing, sys, time
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue, SpinCondition
def read(handle, pipe, plugin):
    if plugin:
        names = {"__name__": "sparkwright_wait"}
        exec(plugin, names)
        names["register"]()
    queue = MessageQueue.create_from_handle(handle, 0)
    queue.wait_until_ready()
    queue.dequeue()
    begun, cpu = time.monotonic(), time.process_time()
    found = [queue.dequeue() for _ in range(50)]
    cores = (time.process_time() - cpu) / (time.monotonic() - begun)
    pipe.send({"cores": cores, "by": SpinCondition.wait.__name__, "found": found})
def cores(plugin):
    queue, (own, other) = MessageQueue(1, 1), multiprocessing.Pipe()
    words = (queue.export_handle(), other, plugin)
    reader = multiprocessing.get_context("fork").Process(target=read, args=words)
    reader.start()
    queue.wait_until_ready()
    for number in range(51):
        time.sleep(0.03)
        queue.enqueue(number)
    return own.recv()
text, answer, sys.stdout = sys.stdin.read(), sys.stdout, sys.stderr
json.dump([cores(""), cores(text)], answer)
"""


@pytest.mark.parametrize("release", [each for each in known() if number(each) >= (0, 18)])
def test_a_reader_of_the_releases_queue_naps_by_the_plugin(release: str, tmp_path: Path) -> None:
    script = tmp_path / "queue.py"
    script.write_text(_QUEUE)
    plugin = (PLUGIN / "sparkwright_wait.py").read_text()
    without, by_plugin = json.loads(run_script(release, script, text=plugin))
    assert (without["by"], by_plugin["by"]) == ("wait", "napping")
    assert by_plugin["found"] == [*range(1, 51)] == without["found"]
    # Where nothing else runs it is less than a fifth; others may have taken the core.
    assert by_plugin["cores"] < without["cores"]


def test_the_plugin_leaves_the_queue_of_a_release_with_a_variable_of_its_own() -> None:
    source = files("0.17.0") / "vllm/distributed/device_communicators/shm_broadcast.py"
    assert "SpinCondition" not in source.read_text()
    assert "envs.VLLM_SLEEP_WHEN_IDLE" in source.read_text()


@pytest.mark.parametrize("release", known())
def test_a_releases_processes_come_to_the_gpu_where_a_standby_waits(release: str) -> None:
    """Both executors: where EngineCore is the worker, and where it has one of its own."""
    folder = files(release) / "vllm/v1"
    wrapper = (folder / "worker/worker_base.py").read_text().partition("class WorkerWrapperBase")[2]
    assert "    def init_device(self" in wrapper
    for name in ("uniproc", "multiproc"):
        text = (folder / f"executor/{name}_executor.py").read_text()
        assert re.search(r"init_worker\((.|\n)*?orker\.init_device\(\)", text)


@pytest.mark.parametrize("release", [each for each in known() if number(each) >= (0, 20)])
def test_what_a_standby_does_first_is_called_so_in_a_release(release: str) -> None:
    """Or a start by it takes 30 seconds more, where there are images."""
    for path, words in {
        "multimodal/encoder_budget.py": "class MultiModalBudget:",
        "multimodal/__init__.py": "MULTIMODAL_REGISTRY = ",
        "model_executor/model_loader/__init__.py": '"get_model_architecture"',
        "v1/attention/backends/registry.py": "def get_class(self)",
        "config/attention.py": "backend: AttentionBackendEnum | None",
        "v1/engine/input_processor.py": "self.renderer = renderer or ",
        "renderers/base.py": "def _warmup_mm_processor(",
    }.items():
        assert words in (files(release) / "vllm" / path).read_text(), path
