"""The supervisor of a Spark's second engine works in the folder of its seat."""

import json
import sys
from pathlib import Path

import pytest

from host.common import seat
from host.engine import supervisor
from host.engine.crash_guard import CrashGuard


def test_it_runs_in_the_folder_of_its_seat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = tmp_path / "releases/b-1"
    release.mkdir(parents=True)
    (release / "unit.json").write_text(json.dumps({"seat": "embed"}))
    began: list[tuple[Path, str]] = []

    def begin(root: Path, name: str) -> None:
        began.append((root, name))
        raise OSError("it begins")

    monkeypatch.setattr(supervisor, "Supervisor", begin)
    monkeypatch.setattr(sys, "argv", ["engine", str(tmp_path), "b-1"])
    with pytest.raises(SystemExit):
        supervisor.command()
    assert began == [(tmp_path / "seats/embed", "b-1")]


def test_one_power_cut_is_one_for_each_engine(tmp_path: Path) -> None:
    """Both count it at the same boot, each by itself; two supervisors of one record count twice."""
    roots = (tmp_path, tmp_path / "seats/embed")
    for boot, time in (("boot 1", 0.0), ("boot 2", 100.0)):
        guards = [CrashGuard(root, f"{seat.seat_of(root)}-1", boot) for root in roots]
        assert [guard.too_many_hard_downs(time) for guard in guards] == [False, False]
        for guard in guards:
            guard.mark()
    guards = [CrashGuard(root, "x-1", "boot 3") for root in roots]
    assert [guard.too_many_hard_downs(200.0) for guard in guards] == [True, True]
