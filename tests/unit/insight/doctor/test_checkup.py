"""What the doctor judges, as a program on the Spark reads it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from host.state import checkup
from sparkwright.insight.doctor.checkup import Checkup, FailedSwitch
from sparkwright.insight.doctor.diagnosis import from_switch
from tests.makers.doctor import NOW
from tests.makers.models import changed

LOG = """\
1795240000.000001 spark1 systemd[1]: Starting vllm@lab-tiny-0a1b2c3d.service - vLLM release x...
1795240001.000001 spark1 vllm[100]: the first life
1795241000.000001 spark1 systemd[1]: Starting vllm@lab-tiny-0a1b2c3d.service - vLLM release x...
1795241001.000001 spark1 vllm[200]: the second life
1795242000.000001 spark1 systemd[1]: Starting vllm@lab-tiny-0a1b2c3d.service - vLLM release x...
1795242001.000001 spark1 vllm[300]: the third life: with a colon
                                    and a second line""".splitlines()
KERNEL = """\
1795230000.000001 spark1 kernel: Out of memory: Killed process 1 (of before)
1795242002.000001 spark1 kernel: Out of memory: Killed process 300 (VLLM::EngineCor)""".splitlines()


def invocations(restarts: int = 0, **downs: list[int]) -> list[str]:
    return checkup.invocations(LOG, KERNEL, {"restarts": restarts}, **downs)


def test_the_last_life_is_read_with_what_the_kernel_said_since() -> None:
    """After a restart the one before as well; after a hard shutdown, the kernel's last words."""
    last = invocations()
    assert last[1:] == [
        "the third life: with a colon",
        "and a second line",
        "Out of memory: Killed process 300 (VLLM::EngineCor)",
    ]
    # Also of a unit that is no longer loaded.
    assert checkup.invocations(LOG, KERNEL, None) == last
    log = invocations(restarts=1)
    assert "the second life" in log
    assert "the first life" not in log
    before = "Out of memory: Killed process 1 (of before)"
    assert before in invocations(downs=[1795230060])
    assert before not in invocations(downs=[1795237200])


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Read a folder as a Spark's, whose journal has no lines; the disk is not waited for."""
    monkeypatch.setattr(checkup, "_journal", lambda *_: [])
    monkeypatch.setattr(checkup.time, "sleep", lambda _: None)

    return lambda: Checkup.ask().value(json.dumps({"known": checkup.read(str(tmp_path))}))


def test_a_machine_without_anything_is_read_and_hard_downs_of_a_day(
    read: Any, tmp_path: Path
) -> None:
    found = read()
    assert (found.release, found.finished, found.failed) == (None, None, None)
    assert found.memory[0] > found.memory[2] > 0
    assert found.free[str(tmp_path)] > 0
    assert found.kernel
    assert found.system["system"]
    now = checkup.time.time()
    (tmp_path / "state").mkdir()
    (tmp_path / "state/hard-downs").write_text(json.dumps([now - 90000, now - 3600]))
    assert read().downs == 1


def test_the_switch_that_failed_last_is_read(read: Any, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for name, at in (("switch@old", 1), ("switch@new-2", 7)):
        (jobs / f"{name}.json").write_text('{"phase": "failed", "message": "no"}\n')
        os.utime(jobs / f"{name}.json", (at, at))
    assert read().failed == FailedSwitch(release="new-2", at=7, reason="no", log=())
    (jobs / "switch@new-3.json").write_text('{"phase": "done", "message": ""}\n')
    assert read().failed is None


FAILED = FailedSwitch(release="lab-new-1", at=NOW - 3600, reason="it did not start", log=())


def test_a_switch_that_failed_is_named() -> None:
    (said,) = from_switch(FAILED)
    assert (said.name, said.evidence) == ("switch-failed", "it did not start")
    assert "lab-new-1 on 2026-11-21 06:50 UTC" in said.cause
    known = changed(FAILED, log=("vllm: error: unrecognized arguments: --x",))
    (cause,) = from_switch(known)
    assert cause.name == "unknown-flag"
    assert "lab-new-1 did not come to serve on 2026-11-21 06:50 UTC. " in cause.cause
    assert from_switch(None) == []
    assert from_switch(FAILED, wanted="lab-new-1") == [said]
    # The inventory asks for another release again, or for none: it is history.
    assert from_switch(FAILED, wanted="lab-old-1") == from_switch(FAILED, wanted="") == []
