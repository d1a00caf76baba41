"""The parts of files/images/sm121-inject that need no GPU: source, patch, verification."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.makers.shell import program

FOLDER = Path(__file__).parents[4] / "files" / "images" / "sm121-inject"

# As in vLLM 0.17.0, but for the lines between.
CMAKE = """\
  cuda_archs_loose_intersection(FP4_ARCHS "12.0f" "${CUDA_ARCHS}")
  cuda_archs_loose_intersection(FP4_ARCHS "12.0a;12.1a" "${CUDA_ARCHS}")
  cuda_archs_loose_intersection(FP4_ARCHS "10.0f;11.0f" "${CUDA_ARCHS}")
  cuda_archs_loose_intersection(SCALED_MM_ARCHS "12.0f" "${CUDA_ARCHS}")
"""
QUTLASS = """\
  cuda_archs_loose_intersection(QUTLASS_ARCHS "10.0f;12.0f" "${CUDA_ARCHS}")
  cuda_archs_loose_intersection(QUTLASS_ARCHS "12.0a;12.1a;10.0a;10.3a" "${CUDA_ARCHS}")
"""


def patched(folder: Path) -> int:
    """Run the Dockerfile's own command; return its exit status."""
    text = (FOLDER / "Dockerfile").read_text()
    (command,) = re.findall(r"^RUN (grep .*?[^\\])\n", text, re.MULTILINE | re.DOTALL)
    return subprocess.run(["sh", "-c", command], cwd=folder, check=False).returncode


@pytest.mark.parametrize("qutlass", [True, False])
def test_nvfp4_is_left_out_for_sm121_and_nothing_else(tmp_path: Path, qutlass: bool) -> None:
    folder = tmp_path / "cmake/external_projects"
    folder.mkdir(parents=True)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    if qutlass:
        (folder / "qutlass.cmake").write_text(QUTLASS)
    assert patched(tmp_path) == 0
    found = re.findall(r'_ARCHS "(.*?)"', (tmp_path / "CMakeLists.txt").read_text())
    assert found == ["12.0a", "12.0a", "10.0f;11.0f", "12.0f"]
    if qutlass:
        found = re.findall(r'_ARCHS "(.*?)"', (folder / "qutlass.cmake").read_text())
        assert found == ["10.0f;12.0a", "12.0a;10.0a;10.3a"]


def test_a_source_that_has_no_such_guard_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cmake").mkdir()
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.replace("12.0f", "12.0g"))
    assert patched(tmp_path)


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A repository with a commit between releases, and then the release 0.17.0."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    for text in ("between", "release"):
        (folder / "CMakeLists.txt").write_text(text)
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", text)
    git(folder, "tag", "--annotate", "--message", "x", "v0.17.0")
    return folder


def run(tmp_path: Path, name: str, version: str, *words: str, **texts: str) -> tuple[int, str]:
    """Run a program of the folder where vLLM has a version; replace some of its constants."""
    text = (FOLDER / name).read_text()
    for before, after in texts.items():
        text = re.sub(before, after, text)
    script = tmp_path / name
    script.write_text(text)
    info = tmp_path / "packages/vllm-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    done = subprocess.run(
        [sys.executable, str(script), *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "packages")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def fetched(tmp_path: Path, upstream: Path, version: str, commit: str) -> tuple[int, str]:
    address = {r"https://.*\.git": f"file://{upstream}"}
    return run(tmp_path, "source.py", version, commit, str(tmp_path / "vllm"), **address)


@pytest.mark.parametrize("version", ["0.17.0rc1.dev102+g{}", "0.17.0rc1.dev102+g{}.cu130"])
def test_a_nightly_names_its_commit(tmp_path: Path, upstream: Path, version: str) -> None:
    commit = git(upstream, "rev-parse", "HEAD^")
    version = version.format(commit[:9])
    assert fetched(tmp_path, upstream, version, commit) == (0, "")
    assert (tmp_path / "vllm/CMakeLists.txt").read_text() == "between"
    assert (tmp_path / "vllm.version").read_text() == version
    status, said = fetched(tmp_path, upstream, version, git(upstream, "rev-parse", "HEAD"))
    assert status
    assert f"vLLM {version} of this image was not built from" in said


@pytest.mark.parametrize("version", ["0.17.0", "0.17.0+cu130"])
def test_a_release_has_its_tag(tmp_path: Path, upstream: Path, version: str) -> None:
    commit = git(upstream, "rev-parse", "HEAD")
    assert fetched(tmp_path, upstream, version, commit) == (0, "")
    assert (tmp_path / "vllm/CMakeLists.txt").read_text() == "release"


@pytest.mark.parametrize("commit", ["", "v0.17.0", "{}"])
def test_another_commit_is_refused(tmp_path: Path, upstream: Path, commit: str) -> None:
    commit = commit.format(git(upstream, "rev-parse", "HEAD^"))
    status, said = fetched(tmp_path, upstream, "0.17.0+cu130", commit)
    assert status
    assert "was not built from" in said
    assert not (tmp_path / "vllm").exists()


def verified(tmp_path: Path, installed: str, expected: str, cubins: int) -> tuple[int, str]:
    package = tmp_path / "packages/vllm"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("__version__ = '0.17.0'\n")
    (package / "_C.abi3.so").touch()
    lister = tmp_path / "cuobjdump"
    names = ["_C.1.sm_80.cubin", *(f"_C.{n}.sm_120.cubin" for n in range(cubins))]
    program(lister, "\n".join(f"echo 'ELF file    1: {name}'" for name in names))
    path = {"/usr/local/cuda/bin/cuobjdump": str(lister)}
    return run(tmp_path, "verify.py", installed, expected, "50", **path)


@pytest.mark.parametrize(
    ("installed", "expected", "cubins", "said"),
    [
        ("0.17.0+cu130", "0.17.0+cu130", 52, "vLLM 0.17.0+cu130 with 52 cubins for sm_120\n"),
        ("0.17.1", "0.17.0", 52, "found vLLM 0.17.1"),
        ("0.18.0", "0.18.0", 52, "calls itself 0.17.0"),
        ("0.17.0", "0.17.0", 49, "found 49 cubins for sm_120"),
        ("0.17.0", "0.17.0", 0, "expected at least 50"),
    ],
)
def test_the_result_is_verified(
    tmp_path: Path, installed: str, expected: str, cubins: int, said: str
) -> None:
    status, message = verified(tmp_path, installed, expected, cubins)
    assert bool(status) is ("with" not in said)
    assert said in message
