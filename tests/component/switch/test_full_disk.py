"""The disk fills up in the middle of a switch: logs of others, a download."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.servers import fill, small_disk
from tests.component.switch.conftest import BESIDE, BRIEF, LONG, NEW, OLD, Spark, is_new, is_old
from tests.programs import host_program


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    with small_disk(tmp_path / "root"):
        spark = Spark(tmp_path)
        yield spark
        spark.close()


@pytest.mark.parametrize(
    ("orders", "phase", "how"), [({}, "starting", "fails"), (BESIDE, "trial", "died")]
)
def test_the_previous_one_gets_its_clients_back(
    served: Spark, orders: dict[str, bool], phase: str, how: str
) -> None:
    door = host_program("door", served.root)
    subprocess.run([*door, "prepare"], check=True)
    if phase == "starting":
        served.behaves(NEW, "never")
    served.start(orders={"trial": LONG} | orders)
    served.wait_phase(phase)
    fill(served.root)
    served.behaves(NEW, how)
    assert served.end() == 1
    is_old(served)
    assert "engine ended" in served.report["message"]
    assert served.door == [OLD]


@pytest.mark.parametrize("orders", [{}, BESIDE])
def test_a_release_that_serves_all_the_same_takes_over(
    served: Spark, orders: dict[str, bool]
) -> None:
    # Long enough for the disk to be full before it ends.
    served.start(orders={"trial": 4 * BRIEF} | orders)
    served.wait_phase("trial")
    fill(served.root)
    assert served.report["phase"] == "trial"
    assert served.end() == 0
    is_new(served)
