"""Docker with containerd's image store, the default of Docker 29: one Spark, a pair, and back.

It names an image by its manifest, not by its configuration; keeps what was pulled beside what it
unpacks; and lies in a folder of containerd's.
"""

import pytest

from tests.driver.declared import changed, replica, seed
from tests.driver.listing import changes, from_factory, listing, purge
from tests.driver.pairs import Pair
from tests.driver.product import DEPLOY, pyinfra
from tests.driver.sparks import current
from tests.lab.spark import Handle

CLEAN = ("deploys/clean.py", "--data", "keep_releases=0")
STORE = "sudo docker info --format '{{.DriverStatus}}'"
IMAGES = "sudo docker image ls --no-trunc --format '{{.ID}} {{.Repository}}' | sort -u"
DANGLING = "sudo docker image ls --quiet --filter dangling=true"
RUNNING = "sudo docker ps --quiet | xargs sudo docker inspect --format '{{.Image}}'"
Listings = list[dict[str, set[str]]]


@pytest.fixture(scope="module")
def stored(pair: Pair) -> Listings:
    """What each Spark is as it left the factory."""
    found = pair.each(lambda spark: from_factory(spark, "containerd-store"))
    for spark in pair.both:
        assert "io.containerd.snapshotter" in spark.run(STORE).stdout
    return found


def images(spark: Handle) -> list[str]:
    """Return the ids of the images on a Spark, each with the name that it has."""
    return spark.run(IMAGES).stdout.splitlines()


def running(spark: Handle) -> str:
    """Return the id of the image that the engine's container was made of."""
    return spark.run(RUNNING).stdout.strip()


def test_one_spark_serves_what_it_pulled(pair: Pair, stored: Listings) -> None:
    with replica(sparks=["spark1"]):
        pyinfra(DEPLOY).succeeded()
        assert pair.ask()
        assert images(pair.worker) == []
        (image,) = images(pair.head)
        assert image.split()[0] == running(pair.head)
        # Pinned: the id is the digest by which it was pulled.
        release = pair.head.run("cat /opt/qwen36/current/run").stdout
        assert f"@{running(pair.head)}" in release
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_the_worker_of_a_pair_copies_it(pair: Pair, stored: Listings) -> None:
    pyinfra(DEPLOY).succeeded()
    pair.wait_serving()
    assert images(pair.worker) == images(pair.head)
    assert running(pair.worker) == running(pair.head)
    # It came by the cable, and `docker image prune` takes it for no waste.
    orders = "ls /opt/qwen36/manifests | grep image"
    assert pair.head.run(orders).stdout.startswith("fabric-image\n")
    offer = "systemctl is-active fabric-image.socket"
    assert pair.head.run(offer, check=False).stdout == "inactive\n"
    assert pair.worker.run(orders).stdout.split() == ["image-copy.json"]
    assert pair.worker.run(DANGLING).stdout == ""
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_a_clean_keeps_what_serves_and_its_image(pair: Pair) -> None:
    before = pair.each(images)
    with changed("other", seed(1)):
        pyinfra(DEPLOY).succeeded()
        cleaned = pyinfra(*CLEAN).succeeded().says("removes release lab-tiny-").output
        removed = [line for line in cleaned.splitlines() if " removes " in line]
        assert "image" not in "".join(removed)
        assert current(pair.head).startswith("lab-other-")
        assert pair.ask()
        assert pair.each(images) == before
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_the_removal_leaves_both_as_delivered(pair: Pair, stored: Listings) -> None:
    run = pyinfra("deploys/remove.py", "--data", "weights=remove").succeeded()
    assert pair.each(images) == [[], []]
    pair.each(lambda spark: purge(run, spark))
    for before, after in zip(stored, pair.each(listing), strict=True):
        assert changes(before, after) == {}
