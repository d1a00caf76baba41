"""Sparks as the doctor reads them: one whose engine has failed, and one that is well."""

from sparkwright.common.hardware import GIB
from sparkwright.engine.metrics import Finished
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor.checkup import Checkup
from sparkwright.insight.doctor.gpu import GpuReading

RELEASE = "lab-tiny-0a1b2c3d"
NOW = 1795247431

UNITS = """\
Id=vllm@lab-tiny-0a1b2c3d.service
ActiveState=failed
NRestarts=RESTARTS
NeedDaemonReload=no
Job=
StatusText=engine ended: its exit status was 1"""

LOG = """\
1795240000.000001 spark1 systemd[1]: Starting vllm@lab-tiny-0a1b2c3d.service - vLLM release x...
1795240001.000001 spark1 vllm[100]: the first life
1795241000.000001 spark1 systemd[1]: Starting vllm@lab-tiny-0a1b2c3d.service - vLLM release x...
1795241001.000001 spark1 vllm[200]: the second life
1795242000.000001 spark1 systemd[1]: Starting vllm@lab-tiny-0a1b2c3d.service - vLLM release x...
1795242001.000001 spark1 vllm[300]: the third life: with a colon
                                    and a second line"""

KERNEL = """\
1795230000.000001 spark1 kernel: Out of memory: Killed process 1 (of before)
1795242002.000001 spark1 kernel: Out of memory: Killed process 300 (VLLM::EngineCor)"""

SYSTEM = """\
product=NVIDIA_DGX_Spark
firmware=5.36_0ACUM018
system="Ubuntu 24.04.3 LTS"
DGX OS="7.2.3"
DGX OS, updated to="7.6.0\""""


def output(restarts: int = 0) -> list[str]:
    """Return what the script prints on a Spark whose engine has failed."""
    parts = {
        "current": f"releases/{RELEASE}",
        "enabled": f"vllm@{RELEASE}.service",
        "share": "",
        "units": UNITS.replace("RESTARTS", str(restarts)),
        "log": LOG,
        "kernel": KERNEL,
        "clock": str(NOW - 120),
        "system": SYSTEM,
        "versions": "7.0.0-1019-nvidia\n580.173.02",
        "memory": "127601452\n2904588\n54525952",
        "cma": "0\n940604",
        "swap": "1000\n1512",
        "free": "/opt/qwen36 1000000000000\n/var/lib/docker 1000000000",
        "docker": '28.3.3\n{"io.containerd.runc.v2":{},"nvidia":{},"runc":{}}',
        "gpu": "611, 14.21, 45, 97, [N/A], [N/A]",
        "cpu": "3900000",
        "nic": "\t\tLnkSta:\tSpeed 32GT/s, Width x4",
        "inside": "Error response from daemon: No such container",
        "downs": f"[{NOW - 90000}, {NOW - 3600}]",
        "switch": "",
        "metrics": "",
    }
    return [line for name, text in parts.items() for line in [f"@@{name}", *text.splitlines()]]


UNIT = EngineUnit(
    release="tiny-0a1b2c3d",
    active="active",
    restarts=0,
    enabled=True,
    outdated=False,
    starting=False,
    status="serving",
)
HEALTHY = Checkup(
    release="tiny-0a1b2c3d",
    unit=UNIT,
    log=("starting the engine", "serving"),
    skew=0.4,
    kernel="6.17.0-1032-nvidia",
    driver="580.173.02",
    memory=(121 * GIB, 20 * GIB, 25 * GIB),
    cma=(0, 0),
    swapped=0,
    free={"/opt/qwen36": 900 * GIB, "/var/lib/docker": 900 * GIB},
    docker="28.3.3",
    runtimes=("io.containerd.runc.v2", "nvidia", "runc"),
    gpu=GpuReading(2418.0, 62.0, 60.0, 96.0, None, None),
    gpu_inside="GPU 0: NVIDIA GB10 (UUID: GPU-1)",
    downs=0,
    finished=Finished(cut=1, ended=20),
)
