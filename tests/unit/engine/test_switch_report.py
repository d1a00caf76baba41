"""The report of a switch."""

import json
from pathlib import Path

from host.engine.switch.report import Report


def test_a_phase_without_figures_has_none(tmp_path: Path) -> None:
    Report(tmp_path / "report.json").say("starting")
    said = json.loads((tmp_path / "report.json").read_text())
    assert (said["phase"], said["done"], said["total"], said["message"]) == ("starting", 0, 0, "")
