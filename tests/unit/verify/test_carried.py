"""The bytes by which verification knows that a group's data takes its link."""

from pathlib import Path
from typing import Any

import pytest
import testinfra
from testinfra.host import Host

from sparkwright.verify.test_pair import carried


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A Spark whose head of a pipeline has sent 7,000 bytes by TCP, and got 50."""
    local = testinfra.get_host("local://")
    run = type(local).run

    def below(own: Host, command: str, *words: str, **more: Any) -> Any:
        return run(own, command.replace("/sys/class/net", str(tmp_path)), *words, **more)

    monkeypatch.setattr(type(local), "run", below)
    statistics = tmp_path / "twin/statistics"
    statistics.mkdir(parents=True)
    for name, count in {"rx_bytes": 50, "tx_bytes": 7000, "rx_errors": 3}.items():
        (statistics / name).write_text(f"{count}\n")
    return local


def test_what_is_sent_counts_as_well(host: Host, tmp_path: Path) -> None:
    assert carried(host, "twin") == 7050
    counters = tmp_path / "twin/device/infiniband/rocep1s0f0/ports/1/counters"
    counters.mkdir(parents=True)
    for name, count in {"port_rcv_data": 2, "port_xmit_data": 30, "port_xmit_wait": 9}.items():
        (counters / name).write_text(f"{count}\n")
    # They count four bytes at a time.
    assert carried(host, "twin") == 4 * 32
