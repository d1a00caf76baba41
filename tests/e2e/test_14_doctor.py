"""The doctor on a virtual Spark: what it says of a sound one, and of real failures.

The tests of this module build on one another, in order.
"""

import pytest

from tests.e2e.client import ask
from tests.e2e.conftest import DEPLOY, pyinfra
from tests.e2e.declared import changed, replica
from tests.e2e.sparks import current

DOCTOR = "deploys/doctor.py"


@pytest.fixture(scope="module")
def spark(pair):
    """A Spark that serves, and another one that is idle."""
    with replica(sparks=["spark1"]):
        pyinfra(DEPLOY).succeeded()
        yield pair.head


def examined(spark: str = "spark1") -> str:
    """Return what the doctor says of a Spark; it can look, and changes nothing."""
    run = pyinfra(DOCTOR, "--limit", spark).succeeded()
    assert run.changed == frozenset()
    print(run.output)  # shown where a test fails
    return run.output


def unit(spark) -> str:
    """Return the unit of the release that should serve."""
    return f"vllm@{current(spark)}"


def test_a_sound_spark(spark):
    said = examined()
    assert "looked at" in said
    assert f"no trouble found: {unit(spark)} is active (serving)" in said


def test_an_idle_spark(spark):
    assert "this Spark is idle" in examined("spark2")


def test_answers_that_were_cut(spark):
    for _ in range(3):
        answer = ask(spark)
        assert answer.json()["choices"][0]["finish_reason"] == "length"
    said = examined()
    assert "[content-null]" in said
    assert "3 of 3 requests were cut by max_tokens" in said


def test_a_start_limit(spark):
    name = unit(spark)
    file = f"/opt/qwen36/releases/{name.removeprefix('vllm@')}/unit.json"
    spark.run(f"sudo systemctl stop {name}; sudo mv {file} {file}.away")
    spark.run(f"for _ in 1 2 3 4 5 6; do sudo systemctl start {name}; done", check=False)
    said = examined()
    spark.run(f"sudo mv {file}.away {file}")
    assert "[release-absent]" in said
    assert "[start-limit]" in said
    assert f"seen: {name}.service: Start request repeated too quickly." in said


def test_an_unknown_flag(spark):
    with changed("broken", ("max-num-seqs: 4", "max-num-seq5: 4")):
        run = pyinfra(DEPLOY, "--limit", "spark1")
        assert run.status == 1
        assert "Hint: The image's vLLM does not know a flag of the recipe" in run.output
        said = examined()
    assert "[unknown-flag]" in said
    assert "unrecognized arguments: --max-num-seq5" in said
