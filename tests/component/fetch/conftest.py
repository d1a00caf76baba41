"""A Spark that fetches weights as the unit does, and a head that lends them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.makers.fetching import Spark, fetching
from tests.makers.share import Lender, lending


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    with fetching(tmp_path) as spark:
        yield spark


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """The Spark that has its weights, and may lend them: as they are, to all tests of a file."""
    with fetching(tmp_path_factory.mktemp("head")) as spark:
        spark.succeed()
        yield spark


@pytest.fixture
def lender(head: Spark) -> Iterator[Lender]:
    with lending(head.root) as lender:
        yield lender
