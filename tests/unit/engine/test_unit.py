"""The unit, as systemd reads it."""

import subprocess
from pathlib import Path

import pytest

from tests.unit.engine import PROGRAMS

# What the unit is ordered after and wants, and a target that a boot ends with.
_OTHERS = {
    "docker.service": "[Service]\nExecStart=/bin/true\n",
    "network-online.target": "[Unit]\nDescription=Network\n",
    "multi-user.target": "[Unit]\nWants=vllm@x.service\nDescription=Multi-User\n",
    **{f"{name}.target": "[Unit]\n" for name in ("basic", "sysinit", "shutdown")},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in _OTHERS.items():
        (tmp_path / name).write_text(text)
    text = (PROGRAMS / "vllm@.service").read_text().replace("ROOT", "/opt/qwen36")
    (tmp_path / "vllm@.service").write_text(text)
    return tmp_path


def test_systemd_finds_nothing_wrong_and_no_cycle(folder: Path) -> None:
    verify = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "vllm@x.service", "multi-user.target"],
        cwd=folder,
        env={"SYSTEMD_UNIT_PATH": f"{folder}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert verify.stderr == ""
    assert verify.returncode == 0
