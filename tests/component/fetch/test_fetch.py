"""What is fetched, kept, resumed and put aside."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkwright.plan.release.resolve import resolve_checkpoint
from tests.component.servers import serving, until
from tests.lab import hub
from tests.lab.hub.server import Hub
from tests.makers.fetching import REPO, SIZE, WEIGHTS, Spark


def test_fetches_all_then_nothing(spark: Spark) -> None:
    assert set(spark.wrong()) == set(spark.locked.files)
    spark.succeed()
    before = spark.sent
    assert [file["requests"] for file in before.values()] == [1, 1, 1], "an empty one needs none"
    spark.succeed()
    assert spark.sent == before
    assert spark.progress().done == spark.progress().total == spark.locked.size


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: os.truncate(file, 1000), "has 1000 bytes instead of"),
        (lambda file: flip(file), "was changed since it was verified"),
        (lambda file: shutil.copy2(file, file.with_suffix(".x")), "is not part of the checkpoint"),
    ],
)
def test_notices_and_mends_one_file(
    spark: Spark, spoil: Callable[[Path], object], said: str
) -> None:
    spark.succeed()
    before = spark.sent
    spoil(spark.folder / "model.safetensors")
    assert [said in trouble for trouble in spark.wrong().values()] == [True]
    spark.succeed()
    fetched = {path for path in spark.sent if spark.sent[path] != before[path]}
    assert fetched == (set() if "not part" in said else {WEIGHTS})


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_a_flipped_byte_under_an_old_date_is_found_by_verify(spark: Spark) -> None:
    spark.succeed()
    file = spark.folder / "model.safetensors"
    stat = file.stat()
    with file.open("r+b") as content:
        content.seek(5)
        content.write(b"?")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert spark.wrong() == {}
    (spark.folder / ".sparkwright.json").unlink()
    spark.succeed()
    assert spark.sent[WEIGHTS]["requests"] == 2


def test_takes_over_what_somebody_fetched(spark: Spark) -> None:
    theirs = spark.root / "model"
    shutil.copytree(spark.source, theirs)
    (theirs / "old.safetensors").write_text("a stranger's")
    (theirs / "config.json").unlink()
    (theirs / "config.json").symlink_to("/etc/hostname")
    other = spark.original("sub/a name.txt")[::-1]
    (theirs / "sub/a name.txt").write_bytes(other)
    assert "3 of 4 files are linked" in spark.succeed()
    assert set(spark.sent) == {f"{REPO}/config.json", f"{REPO}/sub/a name.txt"}
    assert (spark.folder / "model.safetensors").samefile(theirs / "model.safetensors")
    assert not (spark.folder / "old.safetensors").exists()
    assert (theirs / "sub/a name.txt").read_bytes() == other


def test_another_commit_leaves_the_previous_one_as_it_is(spark: Spark) -> None:
    spark.succeed()
    previous, before = spark.look(), spark.sent
    (spark.source / "config.json").write_text('{"model_type": "tinier"}\n')
    (spark.source / "sub/a name.txt").unlink()
    hub.add_commit(spark.hub_root, REPO, spark.source)
    later = replace(spark, locked=resolve_checkpoint(REPO, "main", spark.url), name="model@2")
    later.order()
    assert "2 of 3 files are linked" in later.succeed()
    fetched = {path for path in later.sent if later.sent[path] != before[path]}
    assert {path.rsplit("/")[-1] for path in fetched} == {"config.json"}
    assert spark.look() == previous
    assert spark.wrong() == {}


def test_resumes_after_kill_without_fetching_again(spark: Spark) -> None:
    had = spark.fetch_part()
    # Another hub: the first one counts on until it notices.
    with serving(Hub(spark.hub_root, ("127.0.0.1", 0))) as address:
        spark.url = f"http://{address}"
        spark.order()
        spark.succeed()
        until(lambda: spark.sent[WEIGHTS]["bytes"] == SIZE - had)
