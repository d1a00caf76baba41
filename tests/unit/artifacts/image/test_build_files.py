"""The parts of files/images that need no GPU: source, patch, and what is said of the result."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.makers.shell import program
from tests.programs import ended

IMAGES = Path(__file__).parents[4] / "files" / "images"
COMMUNITY, INJECT = IMAGES / "community", IMAGES / "sm121-inject"
LISTER = "/usr/local/cuda/bin/cuobjdump"


def of_dockerfile(folder: Path, begin: str) -> list[str]:
    """Return the one command of a Dockerfile that begins so."""
    text = (folder / "Dockerfile").read_text()
    (command,) = re.findall(rf"^RUN ({begin}.*?[^\\])\n", text, re.MULTILINE | re.DOTALL)
    return ["sh", "-c", command]


def installed(packages: Path, name: str, version: str, more: str = "") -> None:
    """Have a distribution be known to Python."""
    info = packages / f"{name}-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"
    (info / "METADATA").write_text(text)


def built(packages: Path, text: str, listing: list[str]) -> None:
    """Have a package vllm with one library, of which cuobjdump lists this."""
    (packages / "vllm").mkdir(parents=True, exist_ok=True)
    (packages / "vllm/__init__.py").write_text(text)
    (packages / "vllm/_C.abi3.so").touch()
    program(packages / "cuobjdump", "\n".join(f"echo '{line}'" for line in listing))


def run(packages: Path, file: Path, *words: str, **texts: str) -> tuple[int, str]:
    """Run a program where these packages are installed; replace some of its constants."""
    text = file.read_text()
    for before, after in {LISTER: str(packages / "cuobjdump"), **texts}.items():
        text = re.sub(before, after, text)
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    done = ended([sys.executable, "-c", text, *words], env=environment)
    return done.returncode, done.stdout + done.stderr


class TestCommunity:
    """vLLM built from a commit."""

    COMMIT = "ce884756f062072ce7a8e36ae70b4f74e4fd79fd"
    FIT = "0.19.0+gce884756f"

    @pytest.mark.parametrize(
        ("commit", "taken"), [(COMMIT, True), (COMMIT[:9], False), ("main", False), ("", False)]
    )
    def test_only_a_whole_commit_is_built(self, commit: str, taken: bool) -> None:
        command = of_dockerfile(COMMUNITY, r'echo "\$VLLM_COMMIT"')
        done = subprocess.run(command, env={**os.environ, "VLLM_COMMIT": commit}, check=False)
        assert (done.returncode == 0) is taken

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
        self, tmp_path: Path, version: str, needs: str, listing: str, said: str
    ) -> None:
        installed(tmp_path, "vllm", version, f"Requires-Dist: {needs}\n")
        installed(tmp_path, "torch", "2.10.0+cu130")
        built(tmp_path, "", [listing])
        found = [
            run(tmp_path, COMMUNITY / "needs.py"),
            run(tmp_path, COMMUNITY / "verify.py", self.COMMIT),
        ]
        assert any(status for status, _ in found) is bool(said)
        assert said in next((text for status, text in found if status), "")


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


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    return ended(["git", "-C", folder, *who, *words], check=True).stdout.strip()


class TestInject:
    """Kernels for sm_121 beside those of an image."""

    @pytest.fixture
    def upstream(self, tmp_path: Path) -> Path:
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

    def patched(self, folder: Path) -> int:
        """Run the Dockerfile's own command; return its exit status."""
        return subprocess.run(of_dockerfile(INJECT, "grep "), cwd=folder, check=False).returncode

    @pytest.mark.parametrize("qutlass", [True, False])
    def test_nvfp4_is_left_out_for_sm121_and_nothing_else(
        self, tmp_path: Path, qutlass: bool
    ) -> None:
        more = tmp_path / "cmake/external_projects/qutlass.cmake"
        more.parent.mkdir(parents=True)
        (tmp_path / "CMakeLists.txt").write_text(CMAKE)
        if qutlass:
            more.write_text(QUTLASS)
        assert self.patched(tmp_path) == 0
        found = re.findall(r'_ARCHS "(.*?)"', (tmp_path / "CMakeLists.txt").read_text())
        assert found == ["12.0a", "12.0a", "10.0f;11.0f", "12.0f"]
        if qutlass:
            found = re.findall(r'_ARCHS "(.*?)"', more.read_text())
            assert found == ["10.0f;12.0a", "12.0a;10.0a;10.3a"]

    def test_a_source_that_has_no_such_guard_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "cmake").mkdir()
        (tmp_path / "CMakeLists.txt").write_text(CMAKE.replace("12.0f", "12.0g"))
        assert self.patched(tmp_path)

    def fetched(self, tmp_path: Path, upstream: Path, version: str, commit: str) -> tuple[int, str]:
        installed(tmp_path / "packages", "vllm", version)
        address = {r"https://.*\.git": f"file://{upstream}"}
        words = commit, str(tmp_path / "vllm")
        return run(tmp_path / "packages", INJECT / "source.py", *words, **address)

    @pytest.mark.parametrize(
        ("version", "of", "other"),
        [
            ("0.17.0rc1.dev102+g{}", "HEAD^", "HEAD"),
            ("0.17.0rc1.dev102+g{}.cu130", "HEAD^", "HEAD"),
            ("0.17.0", "HEAD", "HEAD^"),
        ],
    )
    def test_a_nightly_names_its_commit_and_a_release_has_its_tag(
        self, tmp_path: Path, upstream: Path, version: str, of: str, other: str
    ) -> None:
        commit = git(upstream, "rev-parse", of)
        version = version.format(commit[:9])
        assert self.fetched(tmp_path, upstream, version, commit) == (0, "")
        text = (tmp_path / "vllm/CMakeLists.txt").read_text()
        assert text == ("release" if of == "HEAD" else "between")
        assert (tmp_path / "vllm.version").read_text() == version
        status, said = self.fetched(tmp_path, upstream, version, git(upstream, "rev-parse", other))
        assert status
        assert f"vLLM {version} of this image was not built from" in said

    @pytest.mark.parametrize("commit", ["", "v0.17.0"])
    def test_no_commit_is_refused(self, tmp_path: Path, upstream: Path, commit: str) -> None:
        status, said = self.fetched(tmp_path, upstream, "0.17.0+cu130", commit)
        assert status
        assert "was not built from" in said
        assert not (tmp_path / "vllm").exists()

    @pytest.mark.parametrize(
        ("version", "expected", "cubins", "said"),
        [
            ("0.17.0+cu130", "0.17.0+cu130", 52, "vLLM 0.17.0+cu130 with 52 cubins for sm_120\n"),
            ("0.17.1", "0.17.0", 52, "found vLLM 0.17.1"),
            ("0.18.0", "0.18.0", 52, "calls itself 0.17.0"),
            ("0.17.0", "0.17.0", 49, "found 49 cubins for sm_120"),
        ],
    )
    def test_the_result_is_verified(
        self, tmp_path: Path, version: str, expected: str, cubins: int, said: str
    ) -> None:
        names = ["_C.1.sm_80.cubin", *(f"_C.{n}.sm_120.cubin" for n in range(cubins))]
        installed(tmp_path, "vllm", version)
        built(tmp_path, "__version__ = '0.17.0'\n", [f"ELF file    1: {name}" for name in names])
        status, message = run(tmp_path, INJECT / "verify.py", expected, "50")
        assert bool(status) is ("with" not in said)
        assert said in message
