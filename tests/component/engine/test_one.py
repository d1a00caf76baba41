"""The life of an engine on one Spark, whether it completes, embeds or scores."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.common import probe, starts
from tests.clock import patience
from tests.component.engine.sparks import ERRORS, HANGS, RELEASE, Spark, lives
from tests.component.servers import free_port, until


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    spark = Spark(tmp_path / "spark-a", "spark-a", free_port())
    spark.prepare(0, ("spark-a",))
    yield spark
    spark.close()


def test_a_life(spark: Spark) -> None:
    spark.start()
    spark.wait_ready()
    spark.wait_status("serving")
    assert "RDMA_OPTIONS" not in spark.environment
    assert "WATCHDOG=1" in spark.notified
    assert (spark.state / "dropped-caches").exists()
    assert (spark.root / f"state/running@{RELEASE}").exists()
    until(lambda: spark.asked.count("200") > 3)
    spark.signal(signal.SIGTERM)
    assert spark.end() == 0
    assert spark.docker[:2] == ["version", f"rm --force vllm-{RELEASE}"]
    assert f"stop -t 5 vllm-{RELEASE}" in spark.docker
    assert spark.docker[-1] == f"rm --force vllm-{RELEASE}"
    assert spark.log.splitlines() == [
        "starting the engine",
        "serving",
        "stopping: it was stopped",
        "engine ended: it was stopped",
    ]


def test_what_starts_took_is_kept_and_bounds_the_next(spark: Spark) -> None:
    spark.set("status", text="2")
    spark.start()
    assert spark.end() == 2
    spark.set("status", text="125")
    spark.start()
    assert spark.end() == 1
    spark.set("status", False)
    kept = [("warm", "refused"), ("warm", "ended")]
    assert spark.starts == kept
    for _ in range(starts.ENOUGH):
        spark.start()
        kept.append(("warm", ""))
        until(lambda: spark.starts == kept)
        spark.signal(signal.SIGTERM)
        assert spark.end() == 0
    spark.set("hang")
    # One that is stopped has not failed.
    spark.start()
    until(lambda: spark.container_lives)
    spark.signal(signal.SIGTERM)
    assert spark.end() == 0
    spark.start(**{"supervisor.LEAST": 1})
    assert spark.end() == 1
    bound = re.search(r"engine ended: the engine did not answer within (\d+) s", spark.status)
    assert bound
    assert int(bound[1]) < patience()
    assert spark.starts == [*kept, ("warm", "late")]
    # Had it needed longer, it now has all the time.
    spark.start(**{"supervisor.LEAST": 1})
    until(lambda: spark.container_lives)
    spark.live_on()
    spark.set("hang", False)
    spark.wait_ready()


def test_a_start_of_which_nothing_can_be_kept_serves(spark: Spark) -> None:
    (spark.root / "state/starts").mkdir()
    spark.start()
    spark.wait_ready()
    until(lambda: "warning: what this start took was not kept" in spark.log)
    spark.lives_on()


def test_a_refused_command_line_is_told_from_other_ends(spark: Spark) -> None:
    spark.set("status", text="2")
    spark.start()
    assert spark.end() == 2
    assert "READY=1" not in spark.notified
    assert spark.status == "engine ended: its exit status was 2: vLLM refuses its command line"
    spark.set("status", text="125")
    spark.start()
    assert spark.end() == 1
    spark.start("other")
    assert spark.end() == 2
    assert "other/unit.json" in spark.status


def test_a_start_that_is_stopped_and_one_that_is_late(spark: Spark) -> None:
    spark.set("hang")
    spark.start()
    until(lambda: spark.container_lives)
    spark.signal(signal.SIGTERM)
    assert spark.end() == 0
    assert not any(command.startswith("stop") for command in spark.docker), "nothing to drain"
    spark.unit(start_timeout=1)
    spark.start()
    assert spark.end() == 1
    assert "READY=1" not in spark.notified
    assert spark.status == "engine ended: the engine did not answer within 1 s"


def test_the_page_cache_stays_where_it_does_not_count_as_used(spark: Spark) -> None:
    """On a graphics card, where it spares the next start the reading of the weights."""
    spark.unit(unified=False)
    spark.start()
    spark.wait_status("serving")
    assert not (spark.state / "dropped-caches").exists()


def test_waits_for_docker_without_a_start(spark: Spark) -> None:
    spark.set("no-docker")
    spark.start()
    spark.wait_status("waiting for Docker: Cannot connect to the Docker daemon")
    spark.set("no-docker", False)
    spark.wait_ready()
    assert spark.log.count("waiting for Docker") == 1


def test_what_a_killed_supervisor_left_is_removed(spark: Spark) -> None:
    spark.start()
    spark.wait_ready()
    left = spark.container
    spark.kill()
    assert spark.container_lives
    spark.start()
    spark.wait_ready()
    assert spark.container != left
    assert not lives(left)


def test_a_hang_is_seen_and_killed(spark: Spark) -> None:
    spark.start(**HANGS)
    spark.wait_ready()
    os.kill(spark.container, signal.SIGSTOP)
    assert spark.end() == 1
    assert f"kill vllm-{RELEASE}" in spark.docker
    assert not any(command.startswith("stop") for command in spark.docker)


def test_a_busy_engine_lives_until_it_stands_still(spark: Spark) -> None:
    spark.start(**HANGS)
    spark.wait_ready()
    spark.set("moving")
    spark.set("hang")
    looks = spark.asked.count("metrics")
    until(lambda: spark.asked.count("metrics") > looks + 3)
    spark.lives_on()
    # /health is 200 all the while.
    spark.set("moving", False)
    assert spark.end() == 1
    late = f"no token within {patience(0.1):g} s while its counters stand still"
    assert spark.status == f"engine ended: {late}, 3 times in a row"


def test_each_copy_of_a_model_is_asked(spark: Spark) -> None:
    """Neither answers for the other, nor do its counters: vLLM would send all to the one that is
    idle.
    """
    spark.unit(copies=2)
    spark.set("hang-1")
    spark.start(**HANGS)
    until(lambda: "200" in spark.asked)
    assert "READY=1" not in spark.notified
    spark.set("hang-1", False)
    spark.wait_ready()
    spark.set("moving")
    spark.set("hang-0")
    looks = spark.asked.count("metrics")
    until(lambda: spark.asked.count("metrics") > looks + 3)
    spark.lives_on()
    spark.set("hang-0", False)
    spark.set("hang-1")
    assert spark.end() == 1
    late = f"no token within {patience(0.1):g} s while its counters stand still"
    assert spark.status == f"engine ended: {late}, 3 times in a row"


def test_a_step_that_its_recipe_allows_ends_nothing(spark: Spark) -> None:
    spark.unit(longest_step=patience(3))
    spark.start(**HANGS)
    spark.wait_ready()
    spark.set("hang")
    looks = spark.asked.count("metrics")
    until(lambda: spark.asked.count("metrics") > looks + probe.FAILURES)
    spark.set("hang", False)
    answered = spark.asked.count("200")
    until(lambda: spark.asked.count("200") > answered + 1)
    spark.lives_on()
    spark.set("hang")
    assert spark.end() == 1
    assert "while its counters stand still" in spark.status


def test_errors_are_no_sign_of_work(spark: Spark) -> None:
    spark.start(**ERRORS)
    spark.wait_ready()
    spark.set("moving")
    spark.set("broken")
    assert spark.end() == 1
    assert "gave status 500" in spark.status
    assert "EngineDeadError" in spark.status


def test_a_full_disk_does_not_keep_it_from_serving(spark: Spark) -> None:
    (spark.root / f"state/running@{RELEASE}.new").mkdir(parents=True)
    spark.start()
    spark.wait_ready()
    assert "warning: should this Spark go down hard, that will not count" in spark.log
    (spark.root / f"state/running@{RELEASE}.new").rmdir()
    spark.signal(signal.SIGTERM)
    assert spark.end() == 0


@pytest.mark.parametrize("answers", ["embeddings", "scores"])
def test_an_answer_without_numbers_is_none(spark: Spark, answers: str) -> None:
    spark.unit(answers=answers)
    spark.set("empty")
    spark.start(**ERRORS)
    until(lambda: spark.asked.count("200") > 3)
    assert "READY=1" not in spark.notified
    spark.set("empty", False)
    spark.wait_ready()
    answered = spark.asked.count("200")
    until(lambda: spark.asked.count("200") > answered + 3)
    spark.set("empty")
    assert spark.end() == 1
    assert "gave status 200: " in spark.log
    assert "3 times in a row" in spark.log
