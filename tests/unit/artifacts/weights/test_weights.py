"""The weights operation and the share's units; what the units do: tests/component/fetch."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sparkwright.artifacts.jobs.deploy import start
from sparkwright.artifacts.weights.deploy import share_units, weights
from sparkwright.artifacts.weights.weights import manifest_text
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.plan.release.lock import CheckpointLock, LockedFile, places
from tests.unit.driven import Driven, fake_host

LOCKED = CheckpointLock(
    repo="lab/tiny",
    revision="main",
    commit="c" * 40,
    files={
        "model.safetensors": LockedFile(size=10, sha256="a" * 64),
        "config.json": LockedFile(size=3, git="b" * 40),
    },
)
ENDPOINT = "https://huggingface.co"

FILES: dict[str, dict[str, Any]] = {
    "model.safetensors": {"size": 10, "hash": "a" * 64, "changed": False},
    "config.json": {"size": 3, "hash": "b" * 40, "changed": False},
    ".gitattributes": {"size": 9, "hash": None, "changed": False},
}


def answers(*, manifest: str, files: dict[str, Any], message: str = "") -> dict[str, Any]:
    """Return the parts of a Spark whose job has failed, and said so or nothing."""
    report = {"phase": "failed", "done": 0, "total": 0, "message": message} if message else None
    return {
        "artifacts.weights": {"folders": {"model": {"manifest": manifest, "files": files}}},
        "artifacts.jobs": {"jobs": {"weights@model": {"active": "failed", "progress": report}}},
    }


def manifest(*places: Any, **share: Any) -> str:
    return sha256(manifest_text(LOCKED, *places, **share).encode()).hexdigest()


RIGHT = manifest(ENDPOINT)
SHARE = "http://192.168.100.11:29502"
COPIED = manifest(shares=[f"{SHARE}/weights/model"])
FETCH: dict[str, Any] = {"root": "/r", "checkpoints": {"model": LOCKED}}
COPY = {**FETCH, "shares": [SHARE]}
ELSEWHERE = ("/home/it/hub", "/mnt/nas")


def units(driven: Driven) -> list[str]:
    return [script for script in driven.scripts() if "systemctl st" in script]


@pytest.mark.parametrize(
    ("arguments", "settings", "known"),
    [
        (FETCH, {}, RIGHT),
        (COPY, {}, COPIED),
        (
            FETCH,
            {"model_folders": ELSEWHERE},
            manifest(ENDPOINT, places("lab/tiny", "model", ELSEWHERE)),
        ),
    ],
    ids=["of the hub", "of the head", "of an owner"],
)
def test_a_folder_as_it_was_verified_costs_one_command(
    arguments: dict[str, Any], settings: dict[str, Any], known: str
) -> None:
    spark = fake_host(state=answers(manifest=known, files=FILES), **settings)
    assert not spark.run(weights, **arguments).did_change()
    assert (spark.commands, spark.asked) == ([], [["artifacts.weights"]])
    # A new manifest alone starts nothing.
    spark = fake_host(state=answers(manifest="0" * 64, files=FILES))
    assert spark.run(weights, **arguments).did_change()
    assert units(spark) == ["systemctl stop weights@model.service"]
    assert not fake_host().run(weights, **{**arguments, "checkpoints": {}}).did_change()


@pytest.mark.parametrize(("arguments", "known"), [(FETCH, RIGHT), (COPY, COPIED)])
@pytest.mark.parametrize(
    "files",
    [
        {"model.safetensors": FILES["model.safetensors"]},
        FILES | {"config.json": {"size": 3, "hash": "c" * 40, "changed": False}},
    ],
    ids=["missing", "another"],
)
def test_what_differs_is_fetched_by_the_unit(
    arguments: dict[str, Any], known: str, files: dict[str, Any]
) -> None:
    for message, said in (
        ("The hub is gone.", "model: The hub is gone."),
        ("", "weights@model.service ended before its work was done"),
    ):
        spark = fake_host(state=answers(manifest=known, files=files, message=message))
        assert spark.predicts_change(weights, **arguments)
        assert not units(spark)
        assert spark.run(weights, **arguments).did_error()
        assert units(spark) == [start("weights@model").get_raw_value()]
        assert said in spark.scripts()[-1]


SUBNETS = ("192.168.100.0/24", "192.168.101.0/24")


def test_it_listens_on_the_fabric_and_knows_the_worker() -> None:
    plan = FabricPlan("a", ("a", "b"), SUBNETS, 9000, 80)
    texts = {Path(file.path).name: file.text for file in share_units("/r", plan)}
    assert "ListenStream=192.168.100.11:29502\nFreeBind=yes" in texts[
        "fabric-share.socket"
    ].replace("# The fabric may come up later than this.\n", "")
    service = texts["fabric-share.service"]
    assert "/r/bin/sparkwright-host serve-files /r 192.168.100.12 192.168.101.12\n" in service
    assert "InaccessiblePaths=/r/secrets " in service
