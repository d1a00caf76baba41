"""What holds for all tests."""

import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import get_args

import pytest

from tests.lab.state import Engine

VERIFY = Path(__file__).with_name("verify")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let tests of the product's own doings run on real vLLM, too, which takes hours."""
    parser.addoption("--engine", choices=get_args(Engine), default="stand-in")


def pytest_configure() -> None:
    """Have SIGTERM end the tests as Ctrl-C does: what they started ends with them.

    And have messages name `sparkwright` as in an activated environment, without its path.
    """
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a skipped test as failed in CI, where everything that tests need is there.

    Verification is another matter: it asks before it reboots a Spark.
    """
    report = yield
    if report.skipped and os.environ.get("CI") and VERIFY not in item.path.parents:
        report.outcome = "failed"
        report.longrepr = f"skipped, and in CI it must run: {report.longrepr}"
    return report
