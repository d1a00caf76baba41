"""The processes of a lab: known for what they are, and ended."""

import subprocess

from tests.lab import state


def test_process_is_known_by_its_start_time():
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    process = state.Process.of(child.pid)
    try:
        assert process.alive()
        assert not process.model_copy(update={"started": process.started - 1}).alive()
    finally:
        process.end()
        child.wait()
    assert not process.alive()


def test_end_kills_what_ignores_sigterm(monkeypatch):
    command = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    child = subprocess.Popen(["sh", "-c", command], start_new_session=True, stdout=subprocess.PIPE)
    child.stdout.readline()
    wait_for = state.wait_for
    monkeypatch.setattr(
        state, "wait_for", lambda done, timeout, what: wait_for(done, timeout / 10, what)
    )
    state.Process.of(child.pid).end()
    assert child.wait() == -9
    child.stdout.close()
