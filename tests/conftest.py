"""What holds for all tests."""

import os
import signal
from collections.abc import Generator

import pytest


def pytest_configure() -> None:
    """Have SIGTERM end the tests as Ctrl-C does: what they started ends with them."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a skipped test as failed in CI, where everything that tests need is there.

    Verification is another matter: it asks before it reboots a Spark.
    """
    report = yield
    if report.skipped and os.environ.get("CI") and "verify" not in item.path.parts:
        report.outcome = "failed"
        report.longrepr = f"skipped, and in CI it must run: {report.longrepr}"
    return report
