"""The engine's container: what no recipe and no image can make of it."""

import os
from pathlib import Path

import pytest

from host.engine.container import fabric_environment
from sparkwright.common.placed import FIRST_USER, Place
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.release.command import docker_run
from sparkwright.plan.release.container import ALONE, CONFINEMENT, PAIR
from tests.makers.release import numbered, recipe, release
from tests.programs import ended, script

RECIPES = sorted(path.stem for path in Path("files/recipes").glob("*.yaml"))
# What would give a container more than `CONFINEMENT` leaves to it.
LOOSE = ("--privileged", "--cap-add", "--device", "--security-opt", "--pid", "--userns")


def docker_options(name: str, nodes: int) -> list[str]:
    """Return the words of `docker run` before the image, for a recipe's first rank."""
    loaded = load_recipe(name).for_sparks(nodes)
    words = docker_run(
        loaded,
        numbered(nodes),
        Place("/opt/x"),
        image="IMAGE",
        cache="0123",
        release="r",
        folders={each: f"{each}@1" for each in loaded.checkpoints},
        user="7:8",
    )
    return words[: words.index("IMAGE")]


def volumes(words: list[str]) -> list[str]:
    """Return what is mounted into a container."""
    return [words[index + 1] for index, word in enumerate(words) if word == "--volume"]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_confined(name: str) -> None:
    for nodes in load_recipe(name).sparks:
        words = docker_options(name, nodes)
        start = words.index("--cap-drop")
        assert tuple(words[start : start + len(CONFINEMENT)]) == CONFINEMENT
        rest = words[:start] + words[start + len(CONFINEMENT) :]
        assert not [word for word in rest if word.split("=")[0] in LOOSE]
        *weights, api, cache = volumes(words)
        assert all(mount.endswith(":ro") for mount in weights)
        assert api == "/opt/x/sockets/engines/r:/run/vllm"
        assert cache == f"/opt/x/cache/{FIRST_USER}/0123:/home/engine"
        assert words[words.index("--user") + 1] == "7:8"
        network = words[words.index("--network") + 1]
        assert network == ("none" if nodes == 1 else "host")
        assert words[words.index("--cgroup-parent") + 1] == (ALONE if nodes == 1 else PAIR)


def test_rdma_gives_the_devices_in_use_and_no_capability(tmp_path: Path) -> None:
    """The folder of all RDMA devices would be the other port's, and the fabric's manager, too."""
    for number, netdev in enumerate(("used", "unused")):
        device = tmp_path / f"roce{number}"
        (device / "device/net" / netdev).mkdir(parents=True)
        (device / f"device/infiniband_verbs/uverbs{number}").mkdir(parents=True)
        (device / "ports/1/gids").mkdir(parents=True)
        (device / "ports/1/state").write_text("4: ACTIVE\n")
    environment, _ = fabric_environment({"192.0.2.1": "used"}, tmp_path)
    assert environment["RDMA_OPTIONS"] == "--device /dev/infiniband/uverbs0"


def test_code_that_one_image_compiles_is_not_loaded_by_another(tmp_path: Path) -> None:
    """Runs the program of one release, with a Docker that knows another image by then."""
    docker = tmp_path / "bin/docker"
    docker.parent.mkdir()
    run = "[ $1 = run ] && printf '%s\\n' \"$@\" > words && exit"
    script(docker, f"#!/bin/sh\n{run}\n[ $1 = image ] && cat id\n")
    program = tmp_path / "run"
    root = tmp_path / "root"
    program.write_text(release(recipe(), root=str(root)).files["run"])
    for name, text in {"id": "echo 7", "chown": "exit"}.items():
        script((docker.parent / name), f"#!/bin/sh\n{text}\n")
    seen = []
    for digit in "ab":
        (tmp_path / "id").write_text(f"sha256:{digit * 64}\n")
        path = f"{docker.parent}:{os.environ['PATH']}"
        assert ended(["sh", program], cwd=tmp_path, env={"PATH": path}).returncode == 0
        seen.append(volumes((tmp_path / "words").read_text().splitlines())[-1])
    assert seen == [f"{root}/cache/{FIRST_USER}/{digit * 64}:/home/engine" for digit in "ab"]
