"""A built image from the head's Docker to the worker's: it is what the head has under its name."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.docker import image_files
from tests.component.fetch.pair import lending
from tests.component.fetch.test_image import Side, side

NAME = f"sparkwright/mine:{'a' * 12}"
JOB = "a" * 12
ID, FILES = image_files(b"base" * 1000, b"built")
OTHER_ID, OTHER = image_files(b"base" * 1000, b"built again")


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Side]:
    with side(tmp_path / "head") as head:
        head.docker.images[NAME] = FILES
        head.order(f"image-export@{JOB}", image=NAME)
        yield head


@pytest.fixture
def worker(tmp_path: Path, head: Side) -> Iterator[Side]:
    with lending(head.root) as lender, side(tmp_path / "worker") as worker:
        source = f"http://127.0.0.1:{lender.port}/images/{JOB}"
        worker.order("image-copy", images=[NAME], ids=[ID, OTHER_ID], source=source)
        yield worker


def moved(head: Side, worker: Side) -> None:
    for spark, program, job in ((head, "export-image", (JOB,)), (worker, "copy-image", ())):
        status, errors = spark.run(program, *job)
        assert status == 0, errors


def test_it_moves_with_its_name(head: Side, worker: Side) -> None:
    moved(head, worker)
    assert worker.docker.images == {ID: FILES}
    assert worker.docker.names == [f"{ID}/tag?repo=sparkwright/mine&tag={JOB}"]


def test_what_the_worker_had_under_that_name_loses_it(head: Side, worker: Side) -> None:
    worker.docker.images |= {NAME: OTHER, OTHER_ID: OTHER}
    moved(head, worker)
    assert worker.docker.names == [f"{ID}/tag?repo=sparkwright/mine&tag={JOB}"]


def test_one_that_was_built_anew_is_exported_anew(head: Side, worker: Side) -> None:
    moved(head, worker)
    head.docker.images[NAME] = OTHER
    moved(head, worker)
    assert worker.docker.names[1:] == [f"{OTHER_ID}/tag?repo=sparkwright/mine&tag={JOB}"]


def test_an_export_that_is_there_is_not_made_again(head: Side) -> None:
    assert head.run("export-image", JOB)[0] == 0
    head.docker.cut = 0
    assert head.run("export-image", JOB)[0] == 0
    assert head.progress(f"image-export@{JOB}").phase == "done"


def test_what_the_head_does_not_call_so_is_given_to_nobody(head: Side, worker: Side) -> None:
    orders = json.loads((worker.root / "manifests/image-copy.json").read_text())
    worker.order("image-copy", **orders | {"ids": [OTHER_ID]})
    assert head.run("export-image", JOB)[0] == 0
    assert worker.run("copy-image")[0] == 1
    assert "has built another meanwhile: run again" in worker.progress("image-copy").message
    assert worker.docker.images == {}
