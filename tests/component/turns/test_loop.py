"""The loop of turns at real doors: who waits is served; systemd and engines are stand-ins."""

import http.client
import json
import threading
from collections.abc import Iterator
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from host.engine.startup import keep
from tests.component.door.running import Asked, haproxy, waiting
from tests.component.servers import fill, small_disk, until
from tests.component.turns.spark import Clients, Model, Spark, spark_of

pytestmark = haproxy


@pytest.fixture
def spark() -> Iterator[Spark]:
    """Two models, of which the memory holds one."""
    with spark_of({"a": Model(6, turn=1), "b": Model(6, turn=1)}, total=10) as spark:
        yield spark


def test_a_request_starts_its_model_and_cuts_no_answer(spark: Spark) -> None:
    assert spark.ask("a").status == 200
    assert spark.acts == ["start a"]
    clients = Clients(spark)
    clients.ask(("a", 3, 0))
    until(lambda: spark.units["a"].flying == 1)
    clients.ask(("b", 0, 0))
    until(lambda: spark.doors["a"].door.is_closed)
    # Who has changed its files lets others look once haproxy knows it, too.
    spark.doors["a"].door.busy("a-1")
    # What comes for the first model now waits for its next turn.
    clients.ask(("a", 0, 0))
    waiting(spark.doors["a"], 1)
    answers = clients.end()
    assert [(each.name, each.status) for each in answers] == [("a", 200), ("b", 200), ("a", 200)]
    assert spark.acts == ["start a", "stop a", "start b", "stop b", "start a"]
    assert spark.cut == 0
    until(lambda: [spark.told[name]["hits"] for name in "ab"] == [3, 1])
    assert [spark.told[name]["starts"] for name in "ab"] == [2, 1]
    assert "b was asked for by client1" in spark.said()


def test_a_turn_of_no_seconds_serves_who_has_waited() -> None:
    """haproxy tries each request again every second: later than the loop sees that it serves."""
    models = {"a": Model(6, turn=0), "b": Model(6, turn=0)}
    with spark_of(models, total=10) as spark:
        clients = Clients(spark)
        clients.ask(("a", 0, 0))
        waiting(spark.doors["a"], 1)
        clients.ask(("b", 0, 0))
        assert [each.status for each in clients.end()] == [200, 200]
        assert spark.acts == ["start a", "stop a", "start b"]


def test_a_model_that_does_not_start_is_refused_with_the_reason(spark: Spark) -> None:
    spark.models["a"].faults += ["fails"]
    first = spark.ask("a")
    assert (first.status, first.again) == (503, 300)
    assert "its start failed: vLLM refuses its command line" in first.message
    # Not for each request anew, and at once.
    again = spark.ask("a")
    assert (again.status, again.message[-20:]) == (503, first.message[-20:])
    assert spark.acts == ["start a"]
    until(lambda: spark.told["a"]["refused"] == 1)
    # A run has its failure forgotten.
    spark.systemctl("reset-failed", "vllm@a-1.service")
    until(lambda: not spark.told["a"]["why"])
    assert spark.ask("a").status == 200


def test_a_start_without_end_is_ended_and_has_failed(spark: Spark) -> None:
    folder = spark.root / "releases/a-1/unit.json"
    folder.write_text(json.dumps({"start_timeout": 0, "seat": ""}))
    answer = spark.ask("a")
    assert answer.status == 503
    assert "its start failed: it did not serve within 0 s" in answer.message
    assert spark.acts == ["start a", "stop a"]


def test_one_that_its_owner_has_stopped_stays_so(spark: Spark) -> None:
    spark.units["a"].masked = True
    answer = spark.ask("a")
    assert (answer.status, answer.again) == (503, 300)
    assert "it is stopped, until its owner starts it" in answer.message
    assert not spark.acts
    spark.units["a"].masked = False
    until(lambda: not spark.told["a"]["why"])
    assert spark.ask("a").status == 200


def test_who_looks_anew_goes_on_from_what_is(spark: Spark) -> None:
    """Somebody has started one by hand, and closed its door; nobody waits: it is let be."""
    spark.kill()
    spark.systemctl("start", "vllm@a-1.service")
    spark.doors["a"].door.offer("a-1")
    spark.doors["a"].door.hold()
    spark.loop()
    assert spark.ask("a").status == 200
    assert spark.ask("b").status == 200
    assert spark.acts == ["start a", "stop a", "start b"]


def test_nobody_counts_as_stopped_while_systemd_is_silent(spark: Spark) -> None:
    clients = Clients(spark)
    assert spark.ask("a").status == 200
    spark.is_silent = True
    clients.ask(("b", 0, 0))
    until(lambda: "systemd does not tell how vllm@a-1.service" in spark.said())
    waiting(spark.doors["b"], 1)
    spark.is_silent = False
    assert [each.status for each in clients.end()] == [200]
    assert spark.acts == ["start a", "stop a", "start b"]
    assert spark.exceeded == []


def test_who_cannot_be_served_in_time_hears_so_and_finds_his_model_later() -> None:
    """A start takes 4 s, by what was seen of it, and the door holds requests for 3 s."""
    models = {"a": Model(6, hold=3), "b": Model(6, hold=3)}
    with spark_of(models, total=10, start=4) as spark:
        spark.kill()
        for file, text in (("release.json", '{"recipe": "r", "image": "i"}'),):
            (spark.root / "releases/a-1" / file).write_text(text)
        (spark.root / "state").mkdir()
        for _ in range(3):
            keep(spark.root, "a-1", 4, "serving", [])
        spark.loop()
        first = spark.ask("a")
        assert first.status == 503
        assert first.ended - first.came < 3
        assert "it serves in about 10 s, and a request is held for 3 s" in first.message
        assert first.again == 10
        # Who comes when it can serve within his hold is served; nobody asks in vain meanwhile.
        until(lambda: spark.units["a"].state == "active")
        assert spark.ask("a").status == 200
        assert spark.acts == ["start a"]


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small disk at a short path."""
    with TemporaryDirectory(prefix="turns") as folder, small_disk(Path(folder) / "disk"):
        yield Path(folder) / "disk"


def test_a_full_disk_starts_nothing_and_ends_nothing(disk: Path) -> None:
    models = {"a": Model(6), "b": Model(6)}
    with spark_of(models, total=10, disk=disk, DISK=4096) as spark:
        assert spark.ask("a").status == 200
        fill(disk)
        answer = spark.ask("b")
        assert answer.status == 503
        assert "0.0 GB are free" in answer.message
        assert spark.ask("a").status == 200
        (disk / "filler").unlink()
        until(lambda: not spark.told["b"]["why"])
        assert spark.ask("b").status == 200
        assert spark.acts == ["start a", "stop a", "start b"]


def test_a_client_who_leaves_wakes_what_he_asked_for(spark: Spark) -> None:
    """And leaves nothing behind that is held, or that keeps another from its turn."""
    asked = Asked(spark.doors["a"])
    left = http.client.HTTPConnection("127.0.0.1", spark.doors["b"].port)
    head = {"Authorization": f"Bearer {spark.key}"}
    left.request("POST", "/v1/chat/completions", b"{}", head)
    until(lambda: "start b" in spark.acts)
    left.close()
    thread = threading.Thread(target=asked.post)
    thread.start()
    thread.join()
    assert asked.all() == ["a-1"]
    assert spark.acts == ["start b", "stop b", "start a"]


def test_a_pair_is_given_up_for_two_singles_and_comes_back() -> None:
    """As the loop of the worker's Spark sees it; of its own accord the pair goes when it may."""
    models = {"pair": Model(8, rank=1, turn=0.5), "x": Model(4, turn=0.5), "y": Model(4, turn=0.5)}
    with spark_of(models, total=10) as spark:
        pair = spark.place("pair")
        # It waits for its head, without a container.
        spark.units["pair"].state, spark.units["pair"].due = "activating", inf
        assert spark.ask("x").status == 200
        pair.asks.touch()
        until(pair.go.exists)
        assert spark.acts == ["start x", "stop x"]
        spark.units["pair"].state = "active"
        clients = Clients(spark)
        clients.ask(("x", 0, 0))
        clients.ask(("y", 0, 0))
        until(pair.back.exists)
        assert spark.acts == ["start x", "stop x"]
        # Its head has been told, and stops; so its run ends, and the next waits.
        spark.units["pair"].state = "activating"
        for path in (pair.asks, pair.go, pair.back):
            path.unlink(missing_ok=True)
        assert {each.status for each in clients.end()} == {200}
        assert {*spark.acts[2:]} == {"start x", "start y"}
        pair.asks.touch()
        until(pair.go.exists)
        assert {*spark.acts[4:]} == {"stop x", "stop y"}
        assert spark.exceeded == []


def test_a_head_goes_when_the_other_spark_needs_its_place(spark: Spark) -> None:
    assert spark.ask("a").status == 200
    (spark.place("a").go.parent / "a-1.back").touch()
    until(lambda: spark.acts == ["start a", "stop a"])
    assert spark.ask("a").status == 200
    # It is asked for a turn once.
    assert not (spark.place("a").go.parent / "a-1.back").exists()
    assert spark.acts == ["start a", "stop a", "start a"]


def test_one_that_always_runs_is_not_the_loops_business() -> None:
    """Its place is its own, though it is down, and its clients hear what they always did."""
    models = {"a": Model(6, on_demand=False, hold=2), "b": Model(6, hold=2)}
    with spark_of(models, total=10) as spark:
        until(lambda: spark.ask("a").status == 200)
        spark.units["a"].end("inactive")
        answer = spark.ask("a")
        assert (answer.status, answer.again) == (503, 10)
        assert "it is starting, being switched, or down" in answer.message
        answer = spark.ask("b")
        assert "it does not fit beside a" in answer.message
        assert spark.acts == []
