"""A limit of the GPU's clock, as its unit and the status have it."""

from dataclasses import replace
from pathlib import Path

from sparkwright.common.placed import unit_names
from sparkwright.status.status import parse_status
from sparkwright.status.table import as_json, table
from tests.makers.status import SERVES, output, row

UNIT = Path(__file__).parents[3] / "files/host/gpu-clock.service"


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
