"""A hub that misbehaves, and what a user is told."""

import json
from typing import Any

import pytest

from tests.clock import patience
from tests.component.servers import until
from tests.lab import hub
from tests.makers.fetching import REPO, SIZE, WEIGHTS, Spark


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("500", {"times": 2}),
        ("429", {"times": 1, "seconds": 0}),
        ("reset", {"times": 2}),
        ("truncate", {"times": 2}),
        ("flip", {"times": 2}),
    ],
)
def test_gets_over_what_passes(spark: Spark, fault: str, options: dict[str, Any]) -> None:
    if fault == "reset":
        # It discards what the client has not read yet: at full speed that is all of it.
        spark.fault("rate", path=WEIGHTS, rate=int(SIZE / patience(1)))
    spark.fault(fault, path=WEIGHTS, **options)
    spark.succeed()
    if fault in ("reset", "truncate"):
        assert spark.sent[WEIGHTS]["bytes"] < 2 * SIZE, "it began again"


def test_a_wait_that_the_hub_asks_for_is_shown(spark: Spark) -> None:
    """Minutes in which nothing comes would look like a run that hangs."""
    spark.fault("429", times=1, seconds=300)
    file = spark.folder / ".sparkwright-progress.json"
    process = spark.begin()
    until(lambda: file.exists() and "next try in 300 s" in spark.progress().message)
    process.kill()
    process.communicate()


def test_a_partial_file_that_the_hub_will_not_go_on_with(spark: Spark) -> None:
    spark.fetch_part()
    hub.clear_faults(spark.url)
    spark.fault("416", path=WEIGHTS, times=1)
    spark.succeed()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("401", "refuses the request (401): make a new token at"),
        ("403-gated", f"{REPO} is gated (403): accept its terms at"),
        ("404", f"{REPO} has no file model.safetensors any more (404"),
        ("500", "answers with status 500, again and again"),
        ("flip", f"model.safetensors of {REPO} arrived with a wrong hash 3 times"),
        ("truncate", "again and again"),
    ],
)
def test_says_plainly_what_does_not_pass(spark: Spark, fault: str, said: str) -> None:
    spark.fault(fault, path=WEIGHTS, **({"after": 0} if fault == "truncate" else {}))
    assert said in spark.refuse()
    if fault in ("flip", "truncate"):
        # What came of it is not in the way.
        hub.clear_faults(spark.url)
        spark.succeed()


def test_a_gated_repository_needs_a_token_that_may(spark: Spark) -> None:
    token = spark.root / "secrets/hf-token"
    token.write_text("hf_revoked\n")
    assert "refuses the token (401)" in spark.refuse()
    token.unlink()
    (spark.hub_root / REPO / "gated").touch()
    assert "is gated (401)" in spark.refuse()
    token.write_text("hf_lab_guest\n")
    assert "with the account of your token" in spark.refuse()
    token.write_text("hf_lab_reader\n")
    spark.succeed()


def test_nobody_at_the_hubs_address(spark: Spark) -> None:
    spark.url = "http://127.0.0.1:9"
    spark.order()
    assert "no whole answer from http://127.0.0.1:9 (ConnectError)" in spark.refuse()


def test_more_bytes_than_the_disk_has(spark: Spark) -> None:
    spark.promise(10**16)
    assert "10000000.00 GB are still to be fetched" in spark.refuse()
    assert spark.sent == {}


@pytest.mark.parametrize("by", [1, -1])
def test_a_size_that_was_changed_in_the_lock(spark: Spark, by: int) -> None:
    right = spark.manifest.read_text()
    size = json.loads(right)["files"]["model.safetensors"]["size"]
    spark.promise(size + by)
    assert f"it promises {size} bytes instead of {size + by:,}" in spark.refuse()
    spark.manifest.write_text(right)
    spark.succeed()
    spark.promise(size + by)
    said = spark.refuse()
    assert f"model.safetensors has {size} bytes and the hash of the lock, which says " in said
    assert f"says {size + by} bytes: get the lock back" in said
