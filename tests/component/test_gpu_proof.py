"""A container shows the GPU: all is real but Docker, a chroot, and nvidia-smi, a script."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkwright.machine.runtime.deploy import gpu_in_container
from sparkwright.plan.release.container import CONTAINER_OPTIONS
from tests.programs import script
from tests.unit.driven import Driven, this_machine

_CUDA = ".globl cuInit\n.type cuInit, %function\ncuInit:\n{}\nret\n"
_CUDA += '.section .note.GNU-stack, "", %progbits\n'

# Unpacks what is imported; in `run` the driver's files come first, as from the runtime.
_DOCKER = """\
#!/bin/sh
echo "$*" >> {0}/log
case $1 in
  import) mkdir {0}/root && tar xv -C {0}/root > {0}/imported ;;
  image) rm -rf {0}/root ;;
  run)
    if [ -e {0}/fault ]; then cat {0}/fault >&2; exit 125; fi
    mkdir -p {0}/root/usr/bin {0}/root/usr/lib
    cp {0}/bin/nvidia-smi {0}/root/usr/bin/
    cp {0}/libcuda.so.1 {0}/root/usr/lib/ 2>/dev/null
    while [ "$1" != --entrypoint ]; do shift; done
    program=$2; shift 3
    exec chroot {0}/root "$program" "$@" ;;
esac
"""

pytestmark = pytest.mark.skipif(
    bool(os.geteuid()) or not all(map(shutil.which, ("as", "ld", "ldd"))),
    reason="needs root, for chroot, and binutils",
)


class Spark:
    """This machine with a GPU, as far as its programs tell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.driven: Driven = this_machine(root=str(folder / "r"))
        (folder / "bin").mkdir()
        self.write("docker", _DOCKER.format(folder))
        self.write("nvidia-ctk", "#!/bin/sh\necho NVIDIA Container Toolkit CLI version 1.20.1\n")
        self.driver("580.126.09")
        self.cuda(0)

    def write(self, name: str, text: str) -> None:
        script(self.folder / "bin" / name, text)

    def driver(self, version: str) -> None:
        row = f"NVIDIA GB10, {version}{', [N/A]' * 8}"
        text = f'case $1 in --list-gpus) echo "GPU 0: NVIDIA GB10" ;; *) echo "{row}" ;; esac'
        self.write("nvidia-smi", f"#!/bin/sh\n{text}\n")

    def cuda(self, status: int) -> None:
        """Have a library whose cuInit returns this."""
        arm = os.uname().machine == "aarch64"
        source = _CUDA.format(f"mov w0, #{status}" if arm else f"mov ${status}, %eax")
        made = self.folder / "cuda.o"
        subprocess.run(["as", "-o", made, "-"], input=source, text=True, check=True)
        library = ["-soname", "libcuda.so.1", "-o", self.folder / "libcuda.so.1"]
        subprocess.run(["ld", "-shared", *library, made], check=True)

    def prove(self) -> bool:
        return self.driven.run(gpu_in_container).did_succeed()

    @property
    def runs(self) -> list[str]:
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if line.startswith("run ")]


@pytest.fixture
def spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Spark:
    # Python of the system, as on a Spark.
    monkeypatch.setattr("sparkwright.machine.runtime.deploy.FIRST_USER", "nobody")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    caplog.set_level("INFO")
    return Spark(tmp_path)


def test_a_container_shows_the_gpu_and_no_image_is_left(
    spark: Spark, caplog: pytest.LogCaptureFixture
) -> None:
    assert spark.prove()
    assert "a container gets GPU 0: NVIDIA GB10" in caplog.text
    (run,) = spark.runs
    assert " ".join(CONTAINER_OPTIONS) in run
    assert "--gpus" not in run
    user = pwd.getpwnam("nobody")
    assert f"--user {user.pw_uid}:{user.pw_gid} " in run
    assert not (spark.folder / "root").exists()


def test_the_image_brings_nothing_of_the_driver(spark: Spark) -> None:
    """The runtime does: a library that was there already would be proved in its place."""
    library = spark.folder / "libnvidia-gpucomp.so.580.126.09"
    library.touch()
    linked = f"\tlibnvidia-gpucomp.so => {library} (0x0000e000)"
    spark.write("ldd", f'#!/bin/sh\n/usr/bin/ldd "$@" && echo "{linked}"\n')
    assert spark.prove()
    names = [Path(path).name for path in (spark.folder / "imported").read_text().splitlines()]
    assert any(name.startswith("libc.so") for name in names)
    assert library.name not in names


def test_it_is_proved_once_for_a_driver(spark: Spark) -> None:
    assert spark.prove()
    assert spark.prove()
    assert len(spark.runs) == 1
    spark.driver("580.178.04")
    assert spark.prove()
    assert len(spark.runs) == 2


def _fault(said: str) -> Callable[[Spark], object]:
    return lambda spark: (spark.folder / "fault").write_text(said)


# What they say, by published reports.
@pytest.mark.parametrize(
    ("fails", "cause", "remedy"),
    [
        (_fault("docker: Error response from daemon: nvidia-container-cli: initialization error: "
                "nvml error: driver/library version mismatch: unknown"),
         "The NVIDIA driver was updated", "Reboot"),
        (_fault("failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all"),
         "no description of the GPU (CDI)", "nvidia-ctk cdi generate"),
        (_fault("stderr: Auto-detected mode as 'csv'\ninvoking the NVIDIA Container Runtime "
                "Hook directly (e.g. specifying the docker --gpus flag) is not supported."),
         "does not support Docker's --gpus", "--runtime nvidia"),
        (_fault("initialization error: nvml error: driver not loaded: unknown"),
         "driver is not loaded", "modprobe nvidia"),
        (_fault("docker: Error response from daemon: unknown or invalid runtime name: nvidia."),
         "the NVIDIA runtime is missing", "nvidia-ctk runtime configure"),
        (lambda spark: spark.cuda(999), "CUDA does not start", "modprobe -r nvidia_uvm"),
        (lambda spark: (spark.folder / "libcuda.so.1").unlink(),
         "did not add the driver", "nvidia-ctk config"),
    ],
    ids=["mismatch", "cdi", "hook", "unloaded", "runtime", "cuda-999", "no-cuda"],
)  # fmt: skip
def test_what_stands_in_the_way_is_named(
    spark: Spark,
    caplog: pytest.LogCaptureFixture,
    fails: Callable[[Spark], object],
    cause: str,
    remedy: str,
) -> None:
    fails(spark)
    assert not spark.prove()
    (said,) = [line for line in caplog.text.splitlines() if "no container gets the GPU" in line]
    assert cause in said
    assert remedy in said
    assert not (spark.folder / "r/state/gpu").exists()
    assert not (spark.folder / "root").exists()
