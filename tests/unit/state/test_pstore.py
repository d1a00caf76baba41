"""The last words of a kernel, as systemd-pstore lays them down, and as the doctor sees them."""

import os
from pathlib import Path

import pytest

from host.state import checkup
from host.state.pstore import pstore

PART = """\
Panic#1 Part1
<0>[ 7231.004512][  T812] Kernel panic - not syncing: SBSA Generic Watchdog timeout
<4>[ 7231.004520] CPU: 3 UID: 0 PID: 0 Comm: swapper/3

<6>[ 7231.004533]  plain
"""
PANIC = "Kernel panic - not syncing: SBSA Generic Watchdog timeout"


def record(path: Path, text: str, at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))


def test_the_newest_records_in_folders_and_beside_them(tmp_path: Path) -> None:
    assert pstore(str(tmp_path / "none")) == []
    record(tmp_path / "17953/001/dmesg.txt", PART, 300)
    # The parts that it was made of.
    record(tmp_path / "17953/001/dmesg-efi_pstore-179530001", "a part\n", 301)
    record(tmp_path / "dmesg-ramoops-0", "alone\n", 200)
    record(tmp_path / "17952/dmesg.txt", "\n".join(f"line {n}" for n in range(90)), 100)
    record(tmp_path / "17951/dmesg.txt", "too old\n", 50)
    record(tmp_path / "console-ramoops-0", "no dmesg\n", 400)
    found = pstore(str(tmp_path))
    assert [each["at"] for each in found] == [300, 200, 100]
    assert found[0]["lines"] == [PANIC, "CPU: 3 UID: 0 PID: 0 Comm: swapper/3", "plain"]
    assert found[2]["lines"] == [f"line {n}" for n in range(50, 90)]


def test_a_record_is_read_within_bounds(tmp_path: Path) -> None:
    record(tmp_path / "dmesg.txt", "x" * (1 << 20) + "\n" + "the end\n", 1)
    (only,) = pstore(str(tmp_path))
    assert only["lines"][-1] == "the end"
    assert sum(map(len, only["lines"])) < 1 << 17


def test_the_doctor_reads_them_as_the_kernels_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now = checkup.time.time()
    records = [{"at": now - 3600, "lines": [PANIC, "plain"]}, {"at": now - 90000, "lines": [PANIC]}]
    monkeypatch.setattr(checkup, "_journal", lambda *_: [])
    monkeypatch.setattr(checkup, "pstore", lambda: records)
    said = checkup._kernel_log()
    assert checkup.invocations(["99.5 s u[1]: Starting vLLM release x"], said, None)[1:] == [PANIC]
