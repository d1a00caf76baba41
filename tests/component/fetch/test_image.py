"""An image from the head's Docker, or of a bundle, to the worker's: sent, judged and loaded."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.servers import until
from tests.makers import images
from tests.makers.docker import Docker, config_of, image_files
from tests.makers.images import FILES, ID, LAYERS, NAMED, REFERENCE, Head, Side, sending, side

SIZE = sum(map(len, FILES.values()))
BUILT = f"sparkwright/mine:{'a' * 12}"
OTHER_ID, OTHER = image_files(b"base" * 1000, b"built again")


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    with sending(Docker(tmp_path, {REFERENCE: FILES}).saved(REFERENCE)) as head:
        yield head


@pytest.fixture
def worker(tmp_path: Path, head: Head) -> Iterator[Side]:
    with side(tmp_path / "worker") as worker:
        ordered(worker, head)
        yield worker


def ordered(worker: Side, head: Head, **changes: object) -> None:
    names = [REFERENCE, f"sha256:{'5' * 64}", ID]
    orders = {"images": names, "ids": names, "source": head.address, "size": SIZE}
    worker.order("image-copy", **orders | changes)


def copied(worker: Side) -> str:
    status, errors = worker.run("copy-image")
    assert status == 0, errors
    assert worker.progress("image-copy").phase == "done"
    return errors


def refused(worker: Side) -> str:
    """Have the copy fail; return what a user is told."""
    assert worker.run("copy-image", tries=2)[0] == 1
    assert worker.docker.names == []
    return worker.progress("image-copy").message


@pytest.mark.parametrize("cut", [0, 512, SIZE // 2, SIZE - 300])
def test_a_copy_that_is_cut_begins_again_by_itself(head: Head, worker: Side, cut: int) -> None:
    head.cuts = [cut]
    assert "ended early" in copied(worker)
    assert worker.docker.images == {ID: FILES}
    # Or `docker image prune` would remove it.
    assert worker.docker.names == [NAMED]
    assert head.asked == 2


def test_a_copy_that_was_killed_is_finished_by_another(head: Head, worker: Side) -> None:
    head.rate = SIZE // 8
    process = worker.begin("copy-image")
    report = worker.root / "jobs/image-copy.json"
    until(lambda: report.exists() and worker.progress("image-copy").done > 0)
    process.kill()
    process.communicate(timeout=patience())
    assert worker.docker.images == {}
    head.rate = 0
    copied(worker)
    assert worker.docker.images == {ID: FILES}


def passing(worker: Side, head: Head) -> None:
    """Have a worker pass on what the head sends."""
    ordered(worker, head, source=[*head.address, "127.0.0.2"])


def test_the_next_spark_that_ends_takes_nobody_with_it(
    head: Head, worker: Side, tmp_path: Path
) -> None:
    head.rate = SIZE // 4
    passing(worker, head)
    with side(tmp_path / "next") as following:
        ordered(following, head, source=["127.0.0.2", head.port])
        first, last = worker.begin("copy-image"), following.begin("copy-image")
        report = following.root / "jobs/image-copy.json"
        until(lambda: report.exists() and following.progress("image-copy").done > 0)
        last.kill()
        last.communicate(timeout=patience())
        head.rate = 0
        _, errors = first.communicate(timeout=patience())
    assert first.returncode == 0
    assert "the next Spark takes no more" in errors
    assert worker.docker.images == {ID: FILES}
    assert (following.docker.images, head.asked) == ({}, 1)


def test_the_next_spark_that_does_not_come_is_not_waited_for_long(
    head: Head, worker: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "from host.artifacts.image import copy\ncopy.NEXT = 0.1\n" + images.PROGRAM
    monkeypatch.setattr(images, "PROGRAM", program)
    passing(worker, head)
    copied(worker)
    assert worker.docker.images == {ID: FILES}


def test_what_comes_damaged_is_refused_by_each_spark(
    worker: Side, head: Head, tmp_path: Path
) -> None:
    head.data = head.data.replace(LAYERS[0], LAYERS[0][:-1] + b"?")
    passing(worker, head)
    with side(tmp_path / "next") as following:
        ordered(following, head, source=["127.0.0.2", head.port])
        last = following.begin("copy-image")
        assert "its content is not what its name says" in refused(worker)
        last.kill()
        last.communicate(timeout=patience())
        assert following.docker.images == {}


def test_a_head_that_is_not_there(head: Head, worker: Side) -> None:
    head.port = 1
    ordered(worker, head)
    told = refused(worker)
    assert "no answer from 127.0.0.1:1 (Connection refused), again and again" in told
    assert "look at fabric-image.socket on that Spark" in told


def test_docker_is_full_and_then_does_not_answer(worker: Side) -> None:
    worker.docker.error = "write /var/lib/docker/tmp/x: no space left on device"
    assert "the disk is full: free some space" in refused(worker)
    worker.docker.socket.unlink()
    assert "Docker did not take the image" in refused(worker)


def test_a_built_image_is_what_the_head_calls_so(head: Head, worker: Side) -> None:
    """Of what the worker had under that name, Docker takes the name."""
    worker.docker.images |= {BUILT: OTHER, OTHER_ID: OTHER}
    ordered(worker, head, images=[BUILT], ids=[ID])
    copied(worker)
    assert worker.docker.images[ID] == FILES
    assert worker.docker.names == [f"{ID}/tag?repo=sparkwright/mine&tag={'a' * 12}"]


def test_what_the_head_does_not_call_so_is_given_to_nobody(head: Head, worker: Side) -> None:
    ordered(worker, head, images=[BUILT], ids=[OTHER_ID])
    assert "has built another meanwhile: run again" in refused(worker)
    assert worker.docker.images == {}


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[Side]:
    with side(tmp_path / "spark") as spark:
        blobs = {path: each for path, each in FILES.items() if path.startswith("blobs/")}
        for path, content in blobs.items():
            place = spark.root / "bundle/images" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        config, *layers = (f"sha256:{path.rpartition('/')[2]}" for path in blobs)
        spark.order(
            "image-copy",
            images=[REFERENCE, config],
            size=sum(map(len, blobs.values())),
            bundle={
                "media_type": "application/vnd.oci.image.manifest.v1+json",
                "top": config,
                "manifests": [config],
                "config": config,
                "layers": layers,
            },
        )
        yield spark


def test_an_image_is_loaded(loading: Side) -> None:
    status, errors = loading.run("copy-image")
    assert status == 0, errors
    loaded = loading.docker.images[ID]
    assert config_of(loaded) == ID
    assert {*loaded} == {*FILES, "index.json", "oci-layout"}
    assert json.loads(loaded["manifest.json"]) == json.loads(FILES["manifest.json"])
    assert loading.docker.names == [NAMED]


def test_a_layer_with_a_changed_byte_is_refused(loading: Side) -> None:
    path = [each for each in FILES if each.startswith("blobs/")][-1]
    place = loading.root / "bundle/images" / path
    place.write_bytes(place.read_bytes()[:-1] + b"?")
    assert loading.run("copy-image")[0] == 1
    said = loading.progress("image-copy").message
    assert f"{place}: its content is not what its name says" in said
    assert loading.docker.images == {}
