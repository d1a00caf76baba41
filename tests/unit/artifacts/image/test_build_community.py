"""What files/images/community says of its result: it needs no GPU for that."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.makers.shell import program

FOLDER = Path(__file__).parents[4] / "files" / "images" / "community"
COMMIT = "ce884756f062072ce7a8e36ae70b4f74e4fd79fd"
FIT = "0.19.0+gce884756f"


@pytest.mark.parametrize(
    ("commit", "taken"), [(COMMIT, True), (COMMIT[:9], False), ("main", False), ("", False)]
)
def test_only_a_whole_commit_is_built(commit: str, taken: bool) -> None:
    text = (FOLDER / "Dockerfile").read_text()
    (command,) = re.findall(
        r'^RUN (echo "\$VLLM_COMMIT".*?[^\\])\n', text, re.MULTILINE | re.DOTALL
    )
    done = subprocess.run(
        ["sh", "-c", command], env={**os.environ, "VLLM_COMMIT": commit}, check=False
    )
    assert (done.returncode == 0) is taken


def verified(folder: Path, version: str, needs: str, listing: str) -> tuple[int, str]:
    packages = folder / "packages"
    for name, text in (
        ("vllm", f"Name: vllm\nVersion: {version}\n{needs}"),
        ("torch", "Name: torch\nVersion: 2.10.0+cu130\n"),
    ):
        info = packages / f"{name}-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{text}")
    (packages / "vllm").mkdir()
    (packages / "vllm/__init__.py").touch()
    (packages / "vllm/_C.abi3.so").touch()
    lister = folder / "cuobjdump"
    program(lister, f"echo '{listing}'")
    said = ""
    for source, words in (("needs.py", ()), ("verify.py", (COMMIT,))):
        text = (FOLDER / source).read_text()
        text = re.sub("/usr/local/cuda/bin/cuobjdump", str(lister), text)
        done = subprocess.run(
            [sys.executable, "-c", text, *words],
            env={**os.environ, "PYTHONPATH": str(packages)},
            capture_output=True,
            text=True,
            check=False,
        )
        said += done.stdout + done.stderr
        if done.returncode:
            return done.returncode, said
    return 0, said


@pytest.mark.parametrize(
    ("version", "needs", "listing", "said"),
    [
        (FIT, "torch==2.10.0", "_C.1.sm_121a.cubin", ""),
        (FIT, "nowhere>1; extra == 'bench'", "_C.1.sm_120.cubin", ""),
        ("0.19.0", "torch==2.10.0", "_C.1.sm_120.cubin", "expected one of ce884756f"),
        (FIT, "torch==2.11.0", "_C.1.sm_120.cubin", "torch==2.11.0 (found 2.10.0+cu130)"),
        (FIT, "nowhere>1", "_C.1.sm_120.cubin", "nowhere>1 (found none)"),
        (FIT, "torch==2.10.0", "_C.1.sm_90a.cubin", "expected kernels for GB10"),
    ],
)
def test_the_result_is_verified(
    tmp_path: Path, version: str, needs: str, listing: str, said: str
) -> None:
    status, message = verified(tmp_path, version, f"Requires-Dist: {needs}\n", listing)
    assert bool(status) is bool(said)
    assert said in message
