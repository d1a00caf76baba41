"""Units, as systemd reads them."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from sparkwright.common.render import render

_TARGETS = dict.fromkeys(("basic.target", "sysinit.target", "shutdown.target"), "[Unit]\n")
_DOCKER = {"docker.service": "[Service]\nExecStart=/bin/true\n"}


def written(file: Path, folder: Path, others: Mapping[str, str]) -> None:
    """Put a unit file of ours into a folder, with all that it names.

    Args:
        file: the unit, or the template of it.
        folder: the only one that systemd is to know.
        others: texts of more units by name.
    """
    for name, text in (_TARGETS | _DOCKER | dict(others)).items():
        (folder / name).write_text(text)
    (folder / file.name).write_text(render(file, root="/opt/qwen36", proxy={}))


def complaints(folder: Path, *units: str) -> str:
    """Return what systemd finds wrong with units of a folder."""
    verify = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        cwd=folder,
        env={"SYSTEMD_UNIT_PATH": f"{folder}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    return verify.stderr or f"exit status {verify.returncode}" * bool(verify.returncode)
