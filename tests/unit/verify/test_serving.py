"""On which Sparks a test of verification runs, and what is said of one that does not serve."""

import warnings
from collections.abc import Sequence

import pytest
import requests

from sparkwright.common.command_line import PROGRAM_VARIABLE
from sparkwright.run.spark import SparkTarget
from sparkwright.verify import sparks
from sparkwright.verify.sparks import client_of, concerns, unserved

RELEASE = "chat-0a1b2c3d"
SERVES = [RELEASE, "active", "active"]
STOPPED = f"the engine vllm@{RELEASE} is inactive (it was stopped)"


@pytest.mark.parametrize(
    ("found", "answer", "why", "verb"),
    [
        ([""], 0, "nothing is set up on it", "apply"),
        ([RELEASE, "inactive", "active"], 0, STOPPED, "start"),
        ([RELEASE, "failed", "active"], 0, f"the engine vllm@{RELEASE} is failed", "doctor"),
        ([RELEASE, "activating"], 0, f"the engine vllm@{RELEASE} is activating", "doctor"),
        ([RELEASE, "active", "failed"], 0, "its door is failed", "doctor"),
        (SERVES, 401, "its door does not know this site's key, which is newer", "apply"),
        (SERVES, 503, "its door answers 503", "doctor"),
    ],
)
def test_a_spark_that_does_not_serve(
    found: Sequence[str], answer: int, why: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROGRAM_VARIABLE, "sparkwright")
    said = unserved("spark-a", found[0], found[1:], lambda: answer)
    assert said == f"spark-a does not serve: {why}. Next: sparkwright {verb}"


def never() -> int:
    raise AssertionError("its door was asked")


def test_a_spark_that_serves_and_one_whose_door_is_not_waited_for():
    # The second is behind a jump host; a worker has no door.
    for answer in (lambda: 200, lambda: ""):
        assert unserved("spark-a", RELEASE, ["active", "active"], answer) == ""
    assert unserved("spark-a", RELEASE, ["active"], never) == ""
    assert "does not serve" in unserved("spark-a", "chat-1", ["inactive", "active"], never)


def test_what_test_certificate_proves_is_not_warned_of(recwarn, monkeypatch):
    """urllib3 warns of each request whose certificate is not checked by the address."""
    text = "Unverified HTTPS request is being made to host '10.0.0.5'. Adding certificate ..."
    monkeypatch.setattr(requests, "request", lambda *_, **__: warnings.warn(text, stacklevel=1))
    data = {"spark": "spark-a", "hardware": "lab", "api_key": "none", "port": 8000, "tls": "own"}
    client_of(SparkTarget.of(data), "10.0.0.5")("GET", "/v1/models")
    assert not recwarn.list


def spark(recipe: str | None, *ranks: str, rank: int | None = 0) -> SparkTarget:
    data = {"spark": "a", "hardware": "lab", "recipe": recipe, "ranks": ranks, "rank": rank}
    return SparkTarget.of(data)


IDLE = spark(None, rank=None)
ALONE = spark("lab-tiny", "a")
HEAD = spark("lab-tiny", "a", "b")
WORKER = spark("lab-tiny", "b", "a", rank=1)


@pytest.mark.parametrize(
    ("fixtures", "concerned"),
    [
        (["host"], [IDLE, ALONE, HEAD, WORKER]),
        (["host", "fabric"], [HEAD, WORKER]),
        (["host", "api", "release"], [ALONE, HEAD, WORKER]),
        (["api", "release"], [ALONE, HEAD]),
        (["address"], [ALONE, HEAD]),
        (["api", "fabric", "release"], [HEAD]),
    ],
)
def test_a_test_runs_where_its_fixtures_exist(
    fixtures: list[str], concerned: list[SparkTarget]
) -> None:
    assert [each for each in (IDLE, ALONE, HEAD, WORKER) if concerns(fixtures, each)] == concerned


class OneUnit:
    """A Spark on which each unit is in one state, and a release is to serve."""

    def __init__(self, state: str) -> None:
        self.is_symlink, self.linked_to = True, f"releases/{RELEASE}"
        self.systemd_properties = {"ActiveState": state}

    def file(self, _: str) -> "OneUnit":
        return self

    service = file


@pytest.mark.parametrize("state", ["inactive", "activating", "deactivating", "active", "failed"])
@pytest.mark.parametrize("on_demand", [True, False])
def test_one_whose_turn_it_is_not_is_left_out(
    monkeypatch: pytest.MonkeyPatch, state: str, on_demand: bool
) -> None:
    data = {"spark": "a", "hardware": "lab", "recipe": "lab-tiny", "ranks": ["a"], "rank": 0}
    own = SparkTarget.of(data | {"on_demand": on_demand})
    monkeypatch.setattr(sparks, "SPARKS", {"a": own})
    monkeypatch.setattr(sparks, "RESTING", set())
    monkeypatch.setattr(sparks, "reached", lambda _: (OneUnit(state), ""))
    monkeypatch.setattr(sparks, "_answer", lambda _: 200)
    problem = sparks.unready.__wrapped__("a")
    rests = on_demand and state not in ("active", "failed")
    assert ({"a"} if rests else set()) == sparks.RESTING
    assert bool(problem) is (not rests and state != "active")
