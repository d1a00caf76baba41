"""The survey of a Spark, read by one shell script."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sparkwright.common.host_output import sections, sections_script
from sparkwright.common.render import render
from sparkwright.machine.host.containers import ENGINES, INFO
from sparkwright.machine.host.kernel import KERNEL_COMMAND, Kernel, parse_kernel
from sparkwright.plan.release.command import image_id


def survey_script(
    *,
    root: str,
    ports: Sequence[int],
    images: Sequence[str],
    folders: Sequence[str],
    place: str = "",
) -> str:
    """Return the POSIX shell script that reads everything that the preflight checks.

    It only reads, and always exits 0: an empty section stands for something absent.

    Args:
        ports: on which door and engine will listen.
        images: names and digests of the engine's image.
        folders: checkpoint folders under `root`, or anywhere, whose present size counts as fetched.
        place: the folder of the seat that is asked about; "" for `root`.
    """
    paths = shlex.join(str(PurePosixPath(root, folder)) for folder in folders)
    inside = shlex.quote(f"{root}/*")
    sources = " or ".join(f"sport = :{port}" for port in ports)
    parts = {
        "arch": "uname -m",
        "kernel": KERNEL_COMMAND,
        "os": ". /etc/os-release && echo $ID $VERSION_ID && echo $PRETTY_NAME",
        "gpu": "nvidia-smi --query-gpu=name,driver_version,memory.total "
        "--format=csv,noheader,nounits",
        "memory": "awk '/^Mem(Total|Available)/ {print $2}' /proc/meminfo",
        # Copies of a disk share the first, virtual machines that share a kernel the second.
        "machine": "echo $(cat /etc/machine-id /proc/sys/kernel/random/boot_id)",
        "serves": f"readlink {shlex.quote(f'{place or root}/current')}",
        "disk": render(_DISK, root=shlex.quote(root)),
        "docker": "command -v docker >/dev/null && "
        'printf "%s\\n" "${docker_version:-failed}" "$docker_driver"',
        "systemd": _SYSTEMD,
        "clock": "date +%s",
        "image": image_id(images) if images else "true",
        # A disk in the network may hang; a file may be in two of the folders.
        # Outside of the root, files that are root's alone can be linked; others are copied.
        "weights": f"timeout -s KILL 20 find {paths} -type f \\( -path {inside} -o -uid 0 "
        "! -perm /022 \\) -printf '%D:%i %s\\n' | "
        "awk '!seen[$1]++ {n += $2} END {print n + 0}'"
        if folders
        else "true",
        "ports": render(_PORTS, engines=ENGINES, ports=sources) if ports else "true",
    }
    return "\n".join([_DOCKER, sections_script(parts)])


# Images are in Docker's folder or, with containerd's image store (the default of new installations
# since Docker 29), in containerd's.
_DOCKER = rf"""
{{ read -r docker_version; read -r docker_driver; read -r docker_images; read -r status; }} <<END
$({INFO})
END
case $status in *'io.containerd.snapshotter.'*)
  docker_images=$(sed -n "s/^root *= *[\"']\(.*\)[\"'].*/\1/p" /etc/containerd/config.toml)
  docker_images=${{docker_images:-/var/lib/containerd}} ;;
esac"""


# df wants a path that exists: the nearest existing parent stands for a folder yet to be made.
_DISK = """
set --
for path in {{ root }} "${docker_images:-/var/lib/docker}"; do
  while [ ! -e "$path" ]; do path=$(dirname "$path"); done
  set -- "$@" "$path"
done
df --block-size=1 --output=source,avail "$@" | tail -n +2"""

# Prints the failed units only where systemd has some.
_SYSTEMD = """
state=$(systemctl is-system-running); echo "$state"
[ "$state" != degraded ] || systemctl --failed --plain --no-legend | cut -d' ' -f1"""

# With host networking a listener is ours if its cgroup names our door or one of our containers.
_PORTS = """
ours="/door.service /door@ $({{ engines }})"
ss -Hltnp '( {{ ports }} )' | awk '{
  port = $4; sub(/.*:/, "", port)
  while (match($0, /pid=[0-9]+/)) {
    print port, substr($0, RSTART + 4, RLENGTH - 4); $0 = substr($0, RSTART + RLENGTH)
  }
}' | sort -u -k 1,1n -k 2,2n | while read -r port pid; do
  owner=foreign group=$(cat "/proc/$pid/cgroup")
  for mark in $ours; do case $group in *"$mark"*) owner=ours ;; esac; done
  read -r name < "/proc/$pid/comm"
  echo "$owner $port $pid $name"
done"""


@dataclass(frozen=True)
class Listener:
    """A process that listens on a port of door or engine."""

    ours: bool
    port: int
    pid: int
    command: str


@dataclass(frozen=True)
class Survey:
    """A Spark, as found. None always means "absent".

    Attributes:
        gpu, driver: name and driver version of the GPU that CUDA takes by default.
        gpu_memory: bytes of its own memory; None on a GB10, whose memory is the host's.
        gpu_said: nvidia-smi's output instead of a GPU; "" if it showed one, or is absent.
        memory, available: MemTotal and MemAvailable in bytes.
        machine: what no other machine has.
        serves: the release that `current` names.
        root_device, docker_device: the file system that holds each of the two.
        root_free, docker_free: bytes free for root on them.
        docker: version of the Docker daemon; "failed" if it does not answer.
        docker_driver: how it stores images: overlay2, or overlayfs in containerd's store.
        image: Docker's id of the engine's image.
        weights: bytes of the checkpoint folders that are already on the Spark.
    """

    arch: str
    kernel: Kernel
    os: str
    os_name: str
    gpu: str | None
    driver: str | None
    gpu_memory: int | None
    memory: int
    root_device: str
    root_free: int
    docker_device: str
    docker_free: int
    docker: str | None
    docker_driver: str | None
    systemd: str
    failed_units: tuple[str, ...]
    clock: int
    image: str | None
    weights: int
    listeners: tuple[Listener, ...] = ()
    gpu_said: str = ""
    available: int = 0
    machine: str = ""
    serves: str | None = None


def parse_survey(output: Iterable[str]) -> Survey:
    """Return the survey that the script's output lines describe."""
    found = {
        name: [line.strip() for line in lines if line.strip()]
        for name, lines in sections(output).items()
    }
    try:
        gpu, driver, gpu_memory = _gpu(found["gpu"])
        (root_device, root_free), (docker_device, docker_free) = map(str.split, found["disk"])
        os_id, os_name = found["os"]
        return Survey(
            arch=found["arch"][0],
            kernel=parse_kernel(found["kernel"]),
            os=os_id,
            os_name=os_name,
            gpu=gpu,
            driver=driver,
            gpu_memory=gpu_memory,
            memory=int(found["memory"][0]) * 1024,
            root_device=root_device,
            root_free=int(root_free),
            docker_device=docker_device,
            docker_free=int(docker_free),
            docker=_line(found["docker"], 0),
            docker_driver=_line(found["docker"], 1),
            systemd=found["systemd"][0] if found["systemd"] else "absent",
            failed_units=tuple(found["systemd"][1:]),
            clock=int(found["clock"][0]),
            image=_line(found["image"], 0),
            weights=int(found["weights"][0]) if found["weights"] else 0,
            listeners=tuple(_listener(line) for line in found["ports"]),
            gpu_said="" if gpu else " ".join(found["gpu"]),
            available=int(_line(found["memory"], 1) or 0) * 1024,
            machine=" ".join(found.get("machine", ())),
            serves=next((line.rsplit("/", 1)[-1] for line in found.get("serves", ())), None),
        )
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(f"the survey of the host is incomplete: {error!r} in {found}") from error


def _line(lines: list[str], number: int) -> str | None:
    return lines[number] if len(lines) > number else None


def _gpu(lines: list[str]) -> tuple[str | None, str | None, int | None]:
    """Return name, driver and memory of the largest GPU: by default CUDA takes the fastest."""
    # Without a driver nvidia-smi prints an error to standard output.
    gpus = [line.rsplit(", ", 2) for line in lines if line.count(", ") >= 2]
    found = [(int(mib) if mib.isdecimal() else 0, name, driver) for name, driver, mib in gpus]
    if not found:
        return None, None, None
    mib, name, driver = max(found, key=lambda gpu: gpu[0])
    return name, driver, mib * 1024**2 or None


def _listener(line: str) -> Listener:
    owner, port, pid, command = line.split(maxsplit=3)
    return Listener(owner == "ours", int(port), int(pid), command)
