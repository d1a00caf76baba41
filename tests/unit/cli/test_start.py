"""Whose Ctrl-C is taken; what it then does is in tests/component/test_interrupt.py."""

import signal

import pytest

from sparkwright.cli import start


@pytest.mark.parametrize(
    ("program", "ours"),
    [("/site/.venv/bin/pyinfra", True), ("/usr/bin/celery", False), ("", False)],
)
def test_other_programs_of_gevent_keep_their_handler(
    program: str, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [program])
    before = signal.getsignal(signal.SIGINT)
    try:
        start.leave_pyinfra_on_interrupt(None)
        assert (signal.getsignal(signal.SIGINT) is start._leave) == ours
    finally:
        signal.signal(signal.SIGINT, before)
