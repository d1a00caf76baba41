"""A plugin of pytest: which blocks of marked code each test runs, and how long it takes.

Each block leaves a file, named after it, in the folder of marks. So programs that tests start are
seen as well, wherever they were copied to, and however they end.
"""

import json
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.trees import MARKS

RESULT = "reach.json"


class Reach:
    """Collects marks test by test; those of a fixture that tests share belong to all of them."""

    def __init__(self, result: Path) -> None:
        self._result = result
        self._shared: set[str] = set()
        self._blocks: defaultdict[str, set[str]] = defaultdict(set)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._failed: set[str] = set()
        self._now = ""

    def _sweep(self) -> set[str]:
        marks = list(MARKS.iterdir())
        for mark in marks:
            mark.unlink()
        return {mark.name.replace("%", "/") for mark in marks}

    def pytest_collection_finish(self) -> None:
        """Note what runs when modules are imported."""
        self._shared |= self._sweep()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note what a test runs."""
        self._now = item.nodeid.partition("[")[0]
        start = time.monotonic()
        result = yield
        self._seconds[self._now] += time.monotonic() - start
        self._blocks[self._now] |= self._sweep()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Note what a fixture runs."""
        self._blocks[self._now] |= self._sweep()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared |= self._sweep()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which tests fail."""
        if report.failed:
            self._failed.add(self._now)

    def pytest_sessionfinish(self) -> None:
        """Write it all down."""
        reached = {
            name: {"blocks": sorted(blocks | self._shared), "seconds": self._seconds[name]}
            for name, blocks in self._blocks.items()
            if name and name not in self._failed
        }
        result = {"reached": reached, "failed": sorted(self._failed)}
        self._result.write_text(json.dumps(result))


def pytest_configure(config: pytest.Config) -> None:
    """Start to collect."""
    config.pluginmanager.register(Reach(config.rootpath / RESULT))
