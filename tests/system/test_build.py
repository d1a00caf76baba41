"""An image that a Spark builds itself, by its real Docker: once, to its end, for both of a pair.

The tests of this module build on one another, in order.
"""

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sparkwright.declared.recipe.build import FOLDERS
from tests.driver.declared import RECIPES, edited, replica
from tests.driver.pairs import Pair
from tests.driver.product import DEPLOY, Run, background, pyinfra
from tests.driver.sparks import current, until
from tests.lab.spark import Handle

RECIPE = RECIPES / "lab-built.yaml"
IMAGES = "sudo docker image ls --format '{{.Repository}}:{{.Tag}} {{.ID}}' sparkwright/lab-inject"
BASES = "sudo docker image ls --digests --format '{{.Repository}}@{{.Digest}}' '*/*/vllm-cpu'"
JOURNAL = "sudo journalctl --no-pager -o cat -u 'image-build@*'"


@pytest.fixture(scope="module", autouse=True)
def fleet(pair: Pair) -> Iterator[None]:
    """An inventory whose only replica is to serve lab-built on spark1."""
    with replica(recipe="lab-built", sparks=["spark1"]):
        yield


def arguments(**changes: str) -> AbstractContextManager[None]:
    """Let the recipe give other arguments to its build for a while."""
    return edited(RECIPE, lambda recipe: recipe["image"]["args"].update(changes))


def deploy(*words: str) -> Run:
    """Run the deploy for the Spark that serves."""
    return pyinfra(DEPLOY, "--limit", "spark1", *words)


def active(spark: Handle) -> str:
    """Return the build that runs, "" if none does."""
    units = "systemctl list-units --state=active --plain --no-legend 'image-build@*'"
    return spark.run(f"{units} | cut -d' ' -f1").stdout.strip()


@pytest.fixture(scope="module")
def built(pair: Pair) -> Handle:
    """spark1 serves, after its build was left alone first, and then ended by a power cut."""
    spark = pair.head
    # A run says little of it; when the second unit is under way, the first one is in the cache.
    with background(DEPLOY, "--limit", "spark1"):
        until(spark, f"{JOURNAL} | grep -q 'unit 2 of 12'", 300)
    assert active(spark)
    spark.power_off()
    spark.power_on()
    spark.wait_ready()
    assert spark.run(IMAGES).stdout == ""
    deploy().succeeded()
    return spark


def test_an_interrupted_build_is_finished_by_another_run(built: Handle, pair: Pair) -> None:
    said = built.run(JOURNAL).stdout
    for words in ("unit 1 of 12 from the cache", "unit 12 of 12\n", "with 12 units for lab-built"):
        assert words in said
    assert pair.ask()
    (image,) = built.run(IMAGES).stdout.splitlines()
    running = "sudo docker inspect --format '{{.Config.Image}} {{.Image}}' $(sudo docker ps -q)"
    assert image.split()[1] in built.run(running).stdout


def test_a_second_run_builds_nothing(built: Handle) -> None:
    before = built.run(IMAGES).stdout, built.run(JOURNAL).stdout
    assert deploy().succeeded().changed == frozenset()
    assert deploy("--dry").succeeded().plan == frozenset()
    assert (built.run(IMAGES).stdout, built.run(JOURNAL).stdout) == before


def test_a_build_that_fails_says_why_and_the_previous_release_serves(
    built: Handle, pair: Pair
) -> None:
    release = current(built)
    with arguments(MIN_UNITS="99"):
        run = deploy().fails("found 12 units in lab-built; expected at least 99")
    run.says("journalctl -u image-build@", "run again, which goes on there")
    assert current(built) == release
    assert pair.ask()


@pytest.mark.parametrize("folder", sorted(path.parent for path in FOLDERS.glob("*/Dockerfile")))
def test_docker_understands_every_build(built: Handle, folder: Path) -> None:
    """No step of most can run here; Docker reads all of them before it makes the first stage."""
    (base,) = built.run(BASES).stdout.splitlines()
    build = f"sudo docker buildx build --target stock --build-arg BASE={base} -"
    context = subprocess.run(["tar", "-C", folder, "-c", "."], capture_output=True, check=True)
    done = subprocess.run(
        built.ssh_command(build), input=context.stdout, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_the_worker_of_a_pair_has_it_from_the_head(built: Handle, pair: Pair) -> None:
    with replica(sparks=["spark1", "spark2"]):
        before = built.run(JOURNAL).stdout
        pyinfra(DEPLOY).succeeded()
        pair.wait_serving()
        assert built.run(JOURNAL).stdout == before
        assert "#0" not in pair.worker.run(JOURNAL, check=False).stdout
        images = set(pair.worker.run(IMAGES).stdout.splitlines())
        assert len(images) == 1
        assert images <= set(built.run(IMAGES).stdout.splitlines())
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
