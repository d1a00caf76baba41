"""A limit of the GPU's clock: as it is declared, laid down, undone and shown."""

from dataclasses import replace
from pathlib import Path

from sparkwright.common.placed import unit_names
from sparkwright.common.render import unit_file
from sparkwright.host.operations.services import gpu_clock
from sparkwright.status.status import parse_status
from sparkwright.status.table import as_json, table
from tests.makers.status import SERVES, output, row
from tests.unit.driven import fake_host

UNIT = Path(__file__).parents[3] / "files/host/gpu-clock.service"
FACT = "unit=gpu-clock.service"


def commands(limit: int | None, *, known: bool) -> list[str]:
    state = "loaded" if known else "not-found"
    answer = [f"LoadState={state}", "ActiveState=inactive", "UnitFileState=disabled"]
    answer += ["ActiveEnterTimestamp=", "Changed="]
    host = fake_host({FACT: answer})
    unit = unit_file(UNIT, root="/r", megahertz=limit) if limit else None
    host.run(gpu_clock, unit=unit)
    return [script for script in host.scripts() if FACT not in script and "stat $" not in script]


def test_a_limit_is_in_force_now_and_from_each_boot_on() -> None:
    assert commands(2200, known=False)[-2:] == [
        "systemctl enable --quiet gpu-clock.service",
        "systemctl daemon-reload && systemctl restart gpu-clock.service",
    ]


def test_without_a_limit_it_is_undone() -> None:
    (undo,) = commands(None, known=True)
    assert "systemctl disable --quiet --now gpu-clock.service" in undo
    assert commands(None, known=False) == []


def test_what_is_stopped_is_reset_and_removed_with_the_rest() -> None:
    assert "ExecStop=/usr/bin/env nvidia-smi --reset-gpu-clocks" in UNIT.read_text()
    assert "gpu-clock.service" in unit_names()


def test_status_shows_it() -> None:
    reading = parse_status(output(**{"clock limit": "2200"}))
    assert reading.clock_limit == 2200
    assert "2405/2200" in table([row(reading)])[1]
    assert '"gpu_clock_max_mhz": 2200' in as_json([row(reading)], 0)
    assert SERVES.clock_limit is None
    assert "2405/" not in table([row(replace(reading, clock_limit=None))])[1]
