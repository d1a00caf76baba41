"""Fixtures of all tests of keys."""

import pytest

from sparkwright.declared.fleet import fleet


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no output of an earlier test's command, and time for the next one's."""
    monkeypatch.setattr(fleet, "_said", {})
    monkeypatch.setattr(fleet, "PATIENCE", 60)
