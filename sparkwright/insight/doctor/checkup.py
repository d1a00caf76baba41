"""The checkup of a Spark and its engine: everything that the doctor judges, read by one script."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sparkwright.common.host_output import read_json, sections, sections_script
from sparkwright.common.placed import seat_of
from sparkwright.common.render import render
from sparkwright.common.terminal import LINE
from sparkwright.engine.engine import parse_engines, state_script
from sparkwright.engine.metrics import FINISHED, Finished, finished, metrics_command
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor.gpu import GPU_COMMAND, GpuReading, parse_gpu
from sparkwright.plan.release.release import current_engine

# Lines of a log that are read: a start of vLLM writes some 200, a traceback of two ranks 500.
_LINES = 3000
_DAY = 24 * 3600
# Log lines of kernel, earlyoom and logind that may concern an engine, and how many are read: a card
# that fails logs that hundreds of times.
KERNEL = (
    "Out of memory: Killed process|oom-kill:|invoked oom-killer|sending SIG|rejected by service|"
    "NVRM.*(Xid|off the bus|PMU|NV_ERR_NO_MEMORY|Out of memory|API mismatch|RmInitAdapter|rm_init|"
    "RmFetchGspRm|open kernel|not supported by|probe routine|were initialized|RPC response|GSP|"
    "version mismatch)|nvidia.*(version magic|disagrees about version)|firmware load for nvidia|"
    "mlx5_core.*(health|dropped off|fatal|pci_dev|PCIe bandwidth, limited|Link up)|Xid:? [0-9]|"
    "AER: .*(Fatal|recover)|PCIe Bus Error: severity=Unc|critical temp|HARDWARE PROT|EXT4-fs error|"
    "I/O error, dev|nvme.*timeout, |Kernel panic|soft lockup|LOCKUP|stalls|blocked for more|Oops|"
    "Power key pressed|The system will power off"
)
_KERNEL_LINES = 500
# Seconds before a hard shutdown, which a Spark records when it boots again, of which the kernel's
# log lines count.
_LAST_WORDS = 1800


@dataclass(frozen=True)
class FailedSwitch:
    """The last switch, which failed.

    Attributes:
        at: when it failed, in seconds since the epoch.
        log: messages of its engine's last invocation.
    """

    release: str
    at: int
    reason: str
    log: tuple[str, ...]


@dataclass(frozen=True)
class Checkup:
    """The state of one Spark.

    Attributes:
        release: the one that should serve; None on an idle Spark.
        log: messages of the engine's last invocation, and of the one before if it restarted by
            itself.
        skew: seconds by which its clock is ahead of the machine's that runs pyinfra.
        driver: the NVIDIA driver that is loaded; None where none is.
        memory: total, free and available, in bytes.
        cma: bytes of the kernel's CMA areas (CmaTotal), and of free ones (CmaFree).
        swapped: bytes that went to and from the disk within the second of the reading.
        free: bytes free for root, by folder.
        docker: version of the daemon; None when none answers.
        gpu_inside: output of nvidia-smi in the engine's container; None without one.
        cpu: clock of its fastest core, in MHz.
        nic: the state of its network card's PCIe links, as lspci words it.
        downs: how often it went down hard within a day while its engine ran.
        finished: how requests ended; None when the engine does not answer.
        system: versions, for a report.
    """

    release: str | None
    unit: EngineUnit | None
    log: tuple[str, ...]
    skew: float
    kernel: str
    driver: str | None
    memory: tuple[int, int, int]
    cma: tuple[int, int]
    swapped: int
    free: dict[str, int]
    docker: str | None
    runtimes: tuple[str, ...]
    gpu: GpuReading | None
    gpu_inside: str | None
    downs: int
    finished: Finished | None
    failed: FailedSwitch | None = None
    cpu: float | None = None
    nic: tuple[str, ...] = ()
    system: dict[str, str] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Tell whether the engine has run without a break since its first start."""
        unit = self.unit
        steady = unit is not None and unit.active == "active" and not unit.starting
        return steady and not self.downs and not (unit and unit.restarts)


# Versions by their names in a report. NVIDIA's file has the serial number, too.
_SYSTEM = r"""
echo "product=$(cat /sys/class/dmi/id/product_name)"
echo "firmware=$(cat /sys/class/dmi/id/bios_version)"
sed -n 's/^PRETTY_NAME=/system=/p' /etc/os-release
sed -n 's/^DGX_SWBUILD_VERSION=/DGX OS=/p; s/^DGX_OTA_VERSION=/DGX OS, updated to=/p' \
  /etc/dgx-release"""

# A switch keeps its order and its progress in one file; the release is in the file's name.
_SWITCH = """
file=$(ls -t {{ root }}/jobs/switch@*.json | while read -r file; do
  tried=${file##*/switch@}; own={{ root }}/releases/${tried%.json}/unit.json
  [ "$(sed -n 's/^  "seat": "\\([^"]*\\)".*/\\1/p' "$own" 2>/dev/null)" = {{ seat }} ] || continue
  echo "$file"; break
done)
grep -q '"phase": "failed"' "$file" || exit 0
tried=$(basename "$file" .json); tried=${tried#switch@}
echo "$tried"; date -r "$file" +%s; cat "$file"
journalctl --quiet --output=short-unix --lines={{ lines }} --unit="vllm@$tried.service\""""


def checkup_script(root: str) -> str:
    """Return the POSIX shell script of a checkup; it only reads, and takes a second."""
    parts = {
        "log": f"journalctl --quiet --output=short-unix --lines={_LINES} --unit=$unit",
        # The previous boot counts as well: a Spark that froze logs nothing later.
        "kernel": "for source in _TRANSPORT=kernel --unit=earlyoom --unit=systemd-logind; do "
        f"journalctl --quiet --since=-1d --output=short-unix $source | grep -E '{KERNEL}' "
        f"| tail -n {_KERNEL_LINES}; done",
        "system": _SYSTEM,
        "versions": "uname -r; cat /sys/module/nvidia/version",
        "clock": "date +%s",
        "memory": "awk '/^(MemTotal|MemFree|MemAvailable):/ {print $2}' /proc/meminfo",
        "cma": "awk '/^Cma(Total|Free):/ {print $2}' /proc/meminfo",
        "swap": "swapped; sleep 1; swapped",
        "free": f"for folder in {shlex.quote(root)} /var/lib/docker; do df --block-size=1 "
        '--output=avail "$folder" | sed "1d;s|^|$folder |"; done',
        "docker": "docker version --format '{{.Server.Version}}' && "
        "docker info --format '{{json .Runtimes}}'",
        "gpu": GPU_COMMAND,
        "cpu": "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq | sort -n | tail -n 1",
        "nic": "lspci -vv -d 15b3: | grep LnkSta:",
        "inside": 'docker exec "vllm-$release" nvidia-smi --list-gpus 2>&1',
        "downs": f"cat {shlex.quote(root)}/state/hard-downs",
        "switch": render(
            _SWITCH, root=shlex.quote(root), seat=shlex.quote(seat_of(root)), lines=_LINES
        ),
        "metrics": metrics_command(FINISHED),
    }
    prelude = (
        "swapped() { awk '/^pswp(in|out) / {n += $2} END {print n}' /proc/vmstat; }\n"
        f"{current_engine(root)}"
    )
    return "\n".join([prelude, state_script(root), sections_script(parts)])


def parse_checkup(output: Iterable[str], now: float) -> Checkup:
    """Return the checkup that the script's output lines describe, with the time on this machine.

    Raises:
        ValueError: a section that every Linux host has is missing or malformed.
    """
    lines = list(output)
    parts = sections(lines)
    try:
        state = parse_engines(lines)
        unit = state.units.get(state.current or "")
        total, free, available = (int(kib) * 1024 for kib in parts["memory"])
        before, after = map(int, parts["swap"])
        clock = int(parts["clock"][0])
        downs = read_json("".join(parts["downs"]) or "[]")
        recent = [down for down in downs if 0 <= clock - down < _DAY]
        kernel, *driver = parts["versions"]
        # A kernel without CMA areas prints neither line.
        reserved, unused = (int(kib) * 1024 for kib in parts["cma"] or ("0", "0"))
        # A client without a daemon prints an empty version.
        docker = [line for line in parts["docker"] if line]
        inside = " ".join(parts["inside"]) if unit and unit.active == "active" else ""
        return Checkup(
            release=state.current,
            unit=unit,
            log=_log(parts["log"], parts["kernel"], unit.restarts if unit else 0, recent),
            skew=clock - now,
            kernel=kernel,
            driver=next(iter(driver), None),
            memory=(total, free, available),
            cma=(reserved, unused),
            swapped=(after - before) * 4096,
            free={path: int(size) for path, size in map(str.split, parts["free"])},
            docker=docker[0] if docker else None,
            runtimes=tuple(read_json(docker[1])) if docker else (),
            gpu=parse_gpu(parts["gpu"]),
            gpu_inside=inside or None,
            cpu=next((int(khz) / 1000 for khz in parts["cpu"]), None),
            nic=tuple(line.strip() for line in parts["nic"]),
            downs=len(recent),
            finished=finished(parts["metrics"]),
            failed=_failed_switch(parts["switch"]),
            system=dict(_version(line) for line in parts["system"]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"the checkup of the host is incomplete: {error!r}") from error


def _version(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name, value.strip("\"' ") or "unknown"


def _failed_switch(lines: Sequence[str]) -> FailedSwitch | None:
    if not lines:
        return None
    release, at, report, *log = lines
    return FailedSwitch(release, int(at), read_json(report)["message"], _log(log, (), restarts=0))


# Systemd's message when an invocation begins, and journald's line: time, host, unit, message.
_BEGIN = re.compile(r"Starting (\S+\.service - )?vLLM release ")
_ENTRY = re.compile(r"^(?P<time>\d+\.\d+) \S+ [^:\s]+: (?P<text>.*)")


def _log(
    engine: Sequence[str], kernel: Sequence[str], restarts: int, downs: Sequence[float] = ()
) -> tuple[str, ...]:
    """Return the messages of the invocations that count, and the kernel's and earlyoom's since.

    Those shortly before a Spark went down count as well.
    """
    begins = [number for number, line in enumerate(engine) if _BEGIN.search(line)]
    counted = begins[-2:] if restarts else begins[-1:]
    lines = engine[counted[0] :] if counted else engine
    since = _time(lines[0]) if lines else float("inf")

    def counts(time: float) -> bool:
        return time >= since or any(0 <= down - time < _LAST_WORDS for down in downs)

    return tuple(map(_text, [*lines, *(line for line in kernel if counts(_time(line)))]))


def _time(line: str) -> float:
    entry = _ENTRY.match(line)
    return float(entry["time"]) if entry else 0.0


def _text(line: str) -> str:
    entry = _ENTRY.match(line)
    return (entry["text"] if entry else line.strip())[:LINE]
