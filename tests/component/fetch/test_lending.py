"""What the share lends, to whom, and how long it stays."""

import os
from urllib.parse import quote

import pytest

from host.artifacts.weights.checkpoint import Record
from host.artifacts.weights.record import LARGEST_RECORD
from tests.clock import patience
from tests.makers.fetching import NAME, Spark
from tests.makers.share import Lender, lending


def address(spark: Spark, path: str = "config.json") -> str:
    file = spark.locked.files[path]
    return f"/weights/{NAME}/{path}?hash={file.sha256 or file.git}"


def test_lends_to_the_other_spark_only(head: Spark) -> None:
    with lending(head.root, clients=["127.0.0.2", "127.0.0.3"]) as lender:
        assert lender.get(address(head), "127.0.0.3") == (206, '{"model_type": "tiny"}\n')
        status, said = lender.get(address(head))
        assert (status, said) == (403, "lent to 127.0.0.2 and 127.0.0.3 only, not to 127.0.0.1")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/weights",
        f"/weights/{NAME}",
        f"/weights/{NAME}/config.json",
        f"/weights/{NAME}/config.json?hash=",
        f"/weights/{NAME}/.sparkwright.json?hash=x",
        f"/weights/{NAME}/../{NAME}/config.json?hash={{hash}}",
        f"/weights/{NAME}/%2e%2e/{NAME}/config.json?hash={{hash}}",
        f"/weights/./{NAME}/config.json?hash={{hash}}",
        f"/weights/../root/{NAME}/config.json?hash={{hash}}",
        "/weights//etc/passwd",
        "//etc/passwd",
        "/images/..",
        f"/images/../{NAME}/config.json?hash={{hash}}",
        "/secrets/hf-token",
        "/weights/secrets/hf-token?hash=x",
    ],
)
def test_nothing_else_is_lent(head: Spark, lender: Lender, path: str) -> None:
    (head.root / "secrets/hf-token").write_text("hf_secret\n")
    digest = head.locked.files["config.json"].git or ""
    status, said = lender.get(path.replace("{hash}", digest))
    assert status == 404
    assert said
    assert "secret" not in said.replace("secrets", "")


def test_a_file_that_was_changed_since_it_was_verified(spark: Spark) -> None:
    spark.succeed()
    place = spark.folder / "config.json"
    os.utime(place, (1, 1))
    with lending(spark.root) as lender:
        changed = f"config.json of {NAME} was changed here since it was verified"
        assert lender.get(address(spark)) == (404, changed)
        place.rename(spark.folder / "moved.json")
        place.symlink_to("moved.json")
        assert lender.get(address(spark))[0] == 404


@pytest.mark.parametrize(
    "path", ["../secrets/hf-token", "sub/../../secrets/hf-token", "away/hf-token"]
)
def test_a_record_that_leads_elsewhere(spark: Spark, path: str) -> None:
    """Whoever fetches can write anything into it: here the true stamp of another file."""
    spark.succeed()
    secret = spark.root / "secrets/hf-token"
    secret.write_text("hf_secret\n")
    (spark.folder / "away").symlink_to(secret.parent)
    for name in (path, str(secret)):
        record = Record(spark.folder)
        record.add(name, secret, "0" * 64)
        with lending(spark.root) as lender:
            status, said = lender.get(f"/weights/{NAME}/{quote(name, safe='/')}?hash={'0' * 64}")
        assert status == 404
        assert "secret\n" not in said


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"files": [1]}',
        '{"files": {"config.json": 1}}',
        '{"files": {"config.json": {"hash": {}}}}',
        "[" * 100_000,
        '{"files": {}, "x": "' + "x" * LARGEST_RECORD + '"}',
    ],
    ids=["list", "no files", "number", "no hash", "deep", "large"],
)
def test_a_record_that_is_none(spark: Spark, text: str) -> None:
    spark.succeed()
    (spark.folder / ".sparkwright.json").write_text(text)
    with lending(spark.root) as lender:
        assert lender.get(address(spark))[0] == 404
    assert set(spark.wrong().values()) == {"has not been verified"}


def test_no_name_and_no_record_is_another_file(spark: Spark) -> None:
    spark.succeed()
    name = '\nother@0123", "hash": "x'
    (spark.folder / name).write_text("")
    (spark.folder / "linked").symlink_to("config.json")
    assert spark.look().files.keys() == {*spark.locked.files, name}
    assert spark.wrong() == {name: "is not part of the checkpoint"}


def test_ranges(head: Spark, lender: Lender) -> None:
    assert lender.get(address(head), more="Range: bytes=2-\r\n") == (206, 'model_type": "tiny"}\n')
    assert lender.get(address(head), more="Range: bytes=24-\r\n")[0] == 416
    assert lender.get(address(head), more="Range: bytes=-5\r\n")[0] == 416


def test_ends_when_nobody_asks(head: Spark) -> None:
    with lending(head.root, idle=patience(0.5)) as lender:
        assert lender.get(address(head))[0] == 206
        assert lender.process.wait(timeout=patience()) == 0
