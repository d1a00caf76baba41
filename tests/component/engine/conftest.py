"""One Spark, and two that trust each other."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sparkwright.network.link.deploy import new_identity_script
from tests.component.engine.sparks import NAMES, Spark
from tests.component.servers import free_port


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    """A Spark that serves alone."""
    spark = Spark(tmp_path / "spark-a", "spark-a", free_port())
    spark.prepare(0, ("spark-a",))
    yield spark
    _end(spark)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Spark, Spark]]:
    """Head and worker."""
    port = free_port()
    head, worker = (Spark(tmp_path / name, name, port) for name in NAMES)
    for rank, spark in enumerate((head, worker)):
        spark.prepare(rank, NAMES)
        identify(spark)
    for spark, peer in ((head, worker), (worker, head)):
        (spark.root / "link/peer.crt").write_text((peer.root / "link/own.crt").read_text())
    yield head, worker
    for spark in (head, worker):
        _end(spark)


def identify(spark: Spark) -> None:
    """Give a Spark a new key and certificate, as a deploy does."""
    script = new_identity_script(str(spark.root), spark.name)
    subprocess.run(["sh", "-c", script], check=True, capture_output=True)


def _end(spark: Spark) -> None:
    spark.kill()
    if spark.container_lives:
        # It may be about to end by itself.
        with suppress(ProcessLookupError):
            os.kill(spark.container, signal.SIGKILL)
