"""The part of a Spark's target in what replicas lend each other, by its inventory file."""

from pathlib import Path

import pytest

from sparkwright.run.spark import SparkTarget

INVENTORY = """\
sparks:
  a: {ssh_hostname: 10.0.0.1, hardware: lab}
  b: {ssh_hostname: 10.0.0.2, hardware: lab}
  c: {ssh_hostname: 10.0.0.3, hardware: lab}
  d: {ssh_hostname: 10.0.0.4, hardware: lab}
replicas:
  first: {recipe: lab-tiny, sparks: [a, b]}
  second: {recipe: lab-tiny, sparks: [c]}
"""


def target(tmp_path: Path, spark: str, ranks: list[str], root: str = "/opt/qwen36") -> SparkTarget:
    path = tmp_path / "sparks.yaml"
    path.write_text(INVENTORY)
    data = {"spark": spark, "hardware": "lab", "fleet": str(path), "root": root}
    if ranks:
        rank = ranks.index(spark)
        data |= {"recipe": "lab-tiny", "ranks": ranks, "rank": rank, "port": 8000}
    return SparkTarget.of(data)


@pytest.mark.parametrize("root", ["/opt/qwen36", "/srv/models"])
def test_the_lender_listens_on_the_lan(tmp_path: Path, root: str) -> None:
    lender = target(tmp_path, "a", ["a", "b"], root)
    assert lender.may_listen.lan == "10.0.0.1"
    assert lender.lending.clients == ("10.0.0.3",)


@pytest.mark.parametrize(("spark", "ranks"), [("b", ["a", "b"]), ("c", ["c"]), ("d", [])])
def test_a_worker_a_borrower_and_an_idle_spark_do_not(
    tmp_path: Path, spark: str, ranks: list[str]
) -> None:
    found = target(tmp_path, spark, ranks)
    assert found.may_listen.lan is None
    assert bool(found.lending.borrowed) == (spark == "c")
