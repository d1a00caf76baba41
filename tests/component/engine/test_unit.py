"""The unit, as systemd reads it."""

from pathlib import Path

from tests.component.engine import PROGRAMS
from tests.component.units import complaints, written

# What the unit is ordered after and wants, and a target that a boot ends with.
_OTHERS = {
    "network-online.target": "[Unit]\nDescription=Network\n",
    "multi-user.target": "[Unit]\nWants=vllm@x.service\nDescription=Multi-User\n",
}


def test_systemd_finds_nothing_wrong_and_no_cycle(tmp_path: Path) -> None:
    written(PROGRAMS / "vllm@.service", tmp_path, _OTHERS)
    assert complaints(tmp_path, "vllm@x.service", "multi-user.target") == ""
