"""A container shows the GPU: all is real but Docker, a chroot, and nvidia-smi, a script."""

import os
import shutil
from pathlib import Path

import pytest

from sparkwright.machine.runtime.deploy import gpu_in_container
from tests.lab import factory
from tests.programs import script
from tests.unit.driven import this_machine

# Unpacks what is imported; in `run` the driver's files come first, as from the runtime.
_DOCKER = """\
#!/bin/sh
echo "$*" >> {0}/log
case $1 in
  import) mkdir {0}/root && tar xv -C {0}/root > {0}/imported ;;
  image) rm -rf {0}/root ;;
  run)
    mkdir -p {0}/root/usr/bin {0}/root/usr/lib
    cp {0}/bin/nvidia-smi {0}/root/usr/bin/
    cp {0}/cuda/usr/lib/*/libcuda.so.1 {0}/root/usr/lib/ 2>/dev/null
    while [ "$1" != --entrypoint ]; do shift; done
    program=$2; shift 3
    exec chroot {0}/root "$program" "$@" ;;
esac
"""

pytestmark = pytest.mark.skipif(
    bool(os.geteuid()) or not all(map(shutil.which, ("as", "ld", "ldd"))),
    reason="needs root, for chroot, and binutils",
)


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Path:
    """The folder of this machine with a GPU, as far as its programs tell."""
    # Python of the system, as on a Spark.
    monkeypatch.setattr("sparkwright.machine.runtime.deploy.FIRST_USER", "nobody")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    caplog.set_level("INFO")
    for name in ("bin", "cuda/usr/lib/any-linux-gnu"):
        (tmp_path / name).mkdir(parents=True)
    script(tmp_path / "bin/docker", _DOCKER.format(tmp_path))
    version = "NVIDIA Container Toolkit CLI version 1.20.1"
    script(tmp_path / "bin/nvidia-ctk", f"#!/bin/sh\necho {version}\n")
    row = f"NVIDIA GB10, 580.126.09{', [N/A]' * 8}"
    text = f'case $1 in --list-gpus) echo "GPU 0: NVIDIA GB10" ;; *) echo "{row}" ;; esac'
    script(tmp_path / "bin/nvidia-smi", f"#!/bin/sh\n{text}\n")
    factory.cuda(tmp_path / "cuda", 0)
    return tmp_path


def proved(folder: Path) -> bool:
    return this_machine(root=str(folder / "r")).run(gpu_in_container).did_succeed()


def test_the_image_brings_nothing_of_the_driver(folder: Path) -> None:
    """The runtime does: a library that was there already would be proved in its place."""
    library = folder / "libnvidia-gpucomp.so.580.126.09"
    library.touch()
    linked = f"\tlibnvidia-gpucomp.so => {library} (0x0000e000)"
    script(folder / "bin/ldd", f'#!/bin/sh\n/usr/bin/ldd "$@" && echo "{linked}"\n')
    assert proved(folder)
    names = [Path(path).name for path in (folder / "imported").read_text().splitlines()]
    assert any(name.startswith("libc.so") for name in names)
    assert library.name not in names
