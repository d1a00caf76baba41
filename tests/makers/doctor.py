"""Sparks as the doctor reads them: one that is well."""

from sparkwright.common.hardware import GIB
from sparkwright.insight.doctor.checkup import Checkup, Finished, HardDown
from sparkwright.machine.host.survey import Kernel
from tests.makers import status
from tests.makers.gpu import gpu
from tests.makers.models import changed

NOW = 1795247431
UNIT = changed(status.UNIT, release="tiny-0a1b2c3d", since=NOW - 3600)
# Of a DGX Spark that has been updated.
SYSTEM = {
    "product": "NVIDIA_DGX_Spark",
    "firmware": "5.36_0ACUM018",
    "system": "Ubuntu 24.04.3 LTS",
    "DGX OS": "7.2.3",
    "DGX OS, updated to": "7.6.0",
}
KERNEL = Kernel("6.17.0-1032-nvidia", "quiet", handover=0, pools=False)


def hard_down(cause: str) -> HardDown:
    """Return a hard end that a flight recorder has judged."""
    said = f"it went down hard; cause {cause}"
    return HardDown(at=NOW - 400, back=NOW - 280, cause=cause, said=said, lines=("time", "1 2"))


HEALTHY = Checkup(
    release="tiny-0a1b2c3d",
    unit=UNIT,
    log=("starting the engine", "serving"),
    clock=float(NOW),
    skew=0.4,
    kernel=KERNEL,
    driver="580.173.02",
    memory=(121 * GIB, 20 * GIB, 25 * GIB),
    swapped=0,
    free={"/opt/qwen36": 900 * GIB, "/var/lib/docker": 900 * GIB},
    docker="28.3.3",
    runtimes=("io.containerd.runc.v2", "nvidia", "runc"),
    gpu=gpu(2418.0, 62.0),
    gpu_inside="GPU 0: NVIDIA GB10 (UUID: GPU-1)",
    downs=0,
    finished=Finished(cut=1, ended=20),
)
