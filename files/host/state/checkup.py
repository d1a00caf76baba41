"""The checkup of a Spark and its engine, as the doctor judges them; it takes a second."""

import glob
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

from host.common import starts
from host.state import docker, gpu, machine
from host.state.engine_api import ends, metrics
from host.state.engines import current, engines, failed_switch
from host.state.readers import UnknownError, free_bytes, lines, meminfo, text, word
from host.state.status import hard_down, nvidia_smi

# Lines of a log that are read: a start of vLLM writes some 200, a traceback of two ranks 500; and
# characters of a line.
_LINES, _LINE = 3000, 2000
_DAY = 24 * 3600
# Log lines of kernel, earlyoom and logind that may concern an engine, and how many are read: a card
# that fails logs that hundreds of times.
KERNEL = re.compile(
    "Out of memory: Killed process|oom-kill:|invoked oom-killer|sending SIG|rejected by service|"
    "NVRM.*(Xid|off the bus|PMU|NV_ERR_NO_MEMORY|Out of memory|API mismatch|RmInitAdapter|rm_init|"
    "RmFetchGspRm|open kernel|not supported by|probe routine|were initialized|RPC response|GSP|"
    "version mismatch)|nvidia.*(version magic|disagrees about version)|firmware load for nvidia|"
    "mlx5_core.*(health|dropped off|fatal|pci_dev|PCIe bandwidth, limited|Link up)|Xid:? [0-9]|"
    "AER: .*(Fatal|recover)|PCIe Bus Error: severity=Unc|critical temp|HARDWARE PROT|EXT4-fs error|"
    "I/O error, dev|nvme.*timeout, |Kernel panic|soft lockup|LOCKUP|stalls|blocked for more|Oops|"
    "Power key pressed|The system will power off"
)
_SOURCES = ("_TRANSPORT=kernel", "--unit=earlyoom", "--unit=systemd-logind")
_KERNEL_LINES = 500
# Seconds before a hard shutdown, which a Spark records when it boots again, of which the kernel's
# log lines count.
_LAST_WORDS = 1800
# Systemd's message when an invocation begins, and journald's line: time, host, unit, message.
_BEGIN = re.compile(r"Starting (\S+\.service - )?vLLM release ")
_ENTRY = re.compile(r"^(?P<time>\d+\.\d+) \S+ [^:\s]+: (?P<text>.*)")
# What a kernel said last: the firmware keeps it, and systemd-pstore brings it to the disk.
_PSTORE = "/var/lib/systemd/pstore"
# Files that are looked at; records that are read, lines of each, and bytes of its file.
_LOOKED_AT, _RECORDS, _LAST_LINES, _RECORD = 500, 3, 120, 64 << 10
# The kernel's priority and time before a line, and its line before each part of a record.
_PREFIX = re.compile(r"^(<\d+>)?(\[ *\d+\.\d+\](\[ *\w+\])? ?)?")
_PART = re.compile(r"(Panic|Oops|Emergency|Shutdown|Unknown)#\d+ Part\d+")


def read(root: str) -> dict[str, Any]:
    """Return the checkup of the seat whose folder this is, and of its Spark."""
    release, memory, now = current(root), meminfo(), time.time()
    unit = engines().get(release or "")
    downs = json.loads(text(f"{root}/state/hard-downs") or "[]")
    recent = [down for down in downs if 0 <= now - down < _DAY]
    version, runtimes = _docker()
    folders, failed = (root, "/var/lib/docker"), failed_switch(root)
    if failed:
        failed["log"] = invocations(_engine_log(failed["release"]), (), None)
    return {
        "release": release,
        "unit": unit,
        "starts": starts.alike(root, release) if release else [],
        "log": invocations(_engine_log(release), _kernel_log(), unit, recent),
        "kernel": machine.kernel(),
        "driver": word("/sys/module/nvidia/version") or None,
        "memory": [memory[name] for name in ("MemTotal", "MemFree", "MemAvailable")],
        "swapped": _swapped(),
        "free": {folder: free_bytes(folder) for folder in filter(os.path.isdir, folders)},
        "docker": version,
        "runtimes": runtimes,
        "gpu": gpu.read()["gpu"],
        "gpu_inside": nvidia_smi(root),
        "downs": len(recent),
        "down": hard_down(root),
        "finished": ends(metrics(root, release)) if release else None,
        "failed": failed,
        "cpu": _fastest_core(),
        "nic": [row.strip() for row in lines("lspci", "-vv", "-d", "15b3:") if "LnkSta:" in row],
        "system": _system(),
        "clock": time.time(),
    }


def _docker() -> tuple[str | None, list[str]]:
    """Return version and runtimes of Docker's daemon; None where none answers."""
    try:
        return str(docker.get("/version")["Version"]), sorted(docker.get("/info")["Runtimes"])
    except UnknownError:
        return None, []


def _engine_log(release: str | None) -> list[str]:
    return _journal(f"--lines={_LINES}", f"--unit=vllm@{release}.service") if release else []


def _kernel_log() -> list[str]:
    """Return what kernel, earlyoom and logind say of the last day, also of the previous boot."""
    logs = [*(_journal("--since=-1d", source) for source in _SOURCES), _last_words()]
    return [row for log in logs for row in [*filter(KERNEL.search, log)][-_KERNEL_LINES:]]


def _last_words() -> list[str]:
    """Return what kernels that ended within a day said, which the journal lacks, as of now."""
    now = time.time()
    records = (each["lines"] for each in pstore() if now - each["at"] < _DAY)
    return [f"{now:.6f} - kernel: {row}" for rows in records for row in rows]


def pstore(folder: str = _PSTORE) -> list[dict[str, Any]]:
    """Return the last lines of the newest records, and when each came to the disk: after a boot.

    systemd makes a dmesg.txt of a record's parts, in a folder within a folder (its pstore.c).
    """
    found = chain(*(glob.iglob(f"{folder}/{below}dmesg*") for below in ("", "*/", "*/*/")))
    paths = [path for path in islice(found, _LOOKED_AT) if os.path.isfile(path)]
    whole = {os.path.dirname(path) for path in paths if path.endswith("/dmesg.txt")}
    kept = (p for p in paths if p.endswith("/dmesg.txt") or os.path.dirname(p) not in whole)
    newest = sorted(((os.path.getmtime(path), path) for path in kept), reverse=True)
    return [{"at": at, "lines": _last_lines(path)} for at, path in newest[:_RECORDS]]


def _last_lines(path: str) -> list[str]:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _RECORD))
        rows = file.read(_RECORD).decode("utf-8", "replace").splitlines()
    said = (_PREFIX.sub("", row).strip() for row in rows)
    return [row for row in said if row and not _PART.fullmatch(row)][-_LAST_LINES:]


def _journal(*options: str) -> list[str]:
    return lines("journalctl", "--quiet", "--output=short-unix", *options)


def invocations(
    engine: Sequence[str],
    kernel: Iterable[str],
    unit: dict[str, Any] | None,
    downs: Sequence[float] = (),
) -> list[str]:
    """Return the messages of an engine's last invocation, and the kernel's since.

    The one before counts as well if it restarted by itself, and what the kernel said shortly before
    a Spark went down.
    """
    begins = [number for number, row in enumerate(engine) if _BEGIN.search(row)]
    counted = begins[-2:] if unit and unit["restarts"] else begins[-1:]
    rows = engine[counted[0] :] if counted else engine
    since = _entry(rows[0])[0] if rows else float("inf")

    def counts(at: float) -> bool:
        return at >= since or any(0 <= down - at < _LAST_WORDS for down in downs)

    said = [message for at, message in map(_entry, kernel) if counts(at)]
    return [*(_entry(row)[1] for row in rows), *said]


def _entry(row: str) -> tuple[float, str]:
    """Return time and message of a row; those after the first of a message have no time."""
    entry = _ENTRY.match(row)
    time, message = (float(entry["time"]), entry["text"]) if entry else (0.0, row.strip())
    return time, message[:_LINE]


def _swapped() -> int:
    """Return the bytes that go to and from the disk within a second."""
    before = _swapped_pages()
    time.sleep(1)
    return (_swapped_pages() - before) * os.sysconf("SC_PAGE_SIZE")


def _swapped_pages() -> int:
    rows = (text("/proc/vmstat") or "").splitlines()
    return sum(int(row.split()[1]) for row in rows if row.startswith(("pswpin ", "pswpout ")))


def _fastest_core() -> float | None:
    """Return the clock of the fastest core, in MHz."""
    clocks = map(word, glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq"))
    return max((int(khz) / 1000 for khz in clocks if khz), default=None)


def _system() -> dict[str, str]:
    """Return versions, for a report. NVIDIA's file has the serial number, too."""
    system, dgx = map(_assignments, ("/etc/os-release", "/etc/dgx-release"))
    found = {
        "product": word("/sys/class/dmi/id/product_name"),
        "firmware": word("/sys/class/dmi/id/bios_version"),
        "system": system.get("PRETTY_NAME", ""),
        "DGX OS": dgx.get("DGX_SWBUILD_VERSION", ""),
        "DGX OS, updated to": dgx.get("DGX_OTA_VERSION", ""),
    }
    return {name: value for name, value in found.items() if value}


def _assignments(path: str) -> dict[str, str]:
    pairs = (row.partition("=") for row in (text(path) or "").splitlines())
    return {name: value.strip("\"' ") for name, _, value in pairs}
