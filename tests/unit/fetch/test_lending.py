"""What share.py lends, to whom, and how long it stays."""

import json
import os

import pytest

from tests.unit.fetch.conftest import NAME, Spark
from tests.unit.fetch.pair import Lender


def address(spark: Spark, path: str = "config.json") -> str:
    file = spark.locked.files[path]
    return f"/weights/{NAME}/{path}?hash={file.sha256 or file.git}"


def test_lends_to_the_other_spark_only(head: Spark) -> None:
    lender = Lender(head.root, clients=["127.0.0.2", "127.0.0.3"])
    try:
        assert lender.get(address(head), "127.0.0.3") == (206, '{"model_type": "tiny"}\n')
        status, said = lender.get(address(head))
        assert (status, said) == (403, "lent to 127.0.0.2 and 127.0.0.3 only, not to 127.0.0.1")
    finally:
        lender.kill()


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


def test_a_link_in_the_place_of_a_file(head: Spark, lender: Lender) -> None:
    place = head.folder / "config.json"
    place.rename(head.folder / "moved.json")
    place.symlink_to("moved.json")
    assert lender.get(address(head))[0] == 404


def test_a_file_that_was_touched_since_it_was_verified(head: Spark, lender: Lender) -> None:
    os.utime(head.folder / "config.json", (1, 1))
    status, said = lender.get(address(head))
    assert (status, said) == (404, f"config.json of {NAME} was changed here since it was verified")


def test_ranges(head: Spark, lender: Lender) -> None:
    assert lender.get(address(head), more="Range: bytes=2-\r\n") == (206, 'model_type": "tiny"}\n')
    assert lender.get(address(head), more="Range: bytes=24-\r\n")[0] == 416
    assert lender.get(address(head), more="Range: bytes=-5\r\n")[0] == 416


def test_ends_when_nobody_asks(head: Spark) -> None:
    lender = Lender(head.root, idle=0.5)
    assert lender.get(address(head))[0] == 206
    assert lender.process.wait(timeout=10) == 0


def test_does_not_end_amid_an_export(head: Spark) -> None:
    report = head.root / "jobs/image-export@1.json"
    lender = Lender(head.root, idle=2)
    for _ in range(30):
        report.write_text(json.dumps({}))
        with pytest.raises(Exception, match="timed out"):
            lender.process.wait(timeout=0.1)
    assert lender.process.wait(timeout=10) == 0
