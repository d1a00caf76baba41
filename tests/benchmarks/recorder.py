"""What the flight recorder costs: `python -m tests.benchmarks.recorder [SECONDS]`, as root.

On an ext4 of its own, in a file: all that reaches that disk is the recorder's, the journal's blocks
for it as well, on which nobody else's activity shares the cost. A stand-in for nvidia-smi feeds it;
the real one is no part of the figure.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.programs import host_program

DAY = 86_400
# What is promised: per cent of a core, and MB a day.
CORE, DISK = 0.2, 100


def main(seconds: int) -> None:
    """Print both figures beside what is promised; end with 1 where one is beyond it."""
    with tempfile.TemporaryDirectory() as folder:
        image, mounted = f"{folder}/disk", f"{folder}/mounted"
        for words in (
            ("truncate", "-s", "600M", image),
            (
                "mkfs.ext4",
                "-q",
                "-b",
                "4096",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
                image,
            ),
            ("mkdir", mounted),
        ):
            subprocess.run(words, check=True)
        made = ("losetup", "--find", "--show", image)
        device = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(("mount", device, mounted), check=True)
        try:
            core, disk = measured(Path(mounted), Path(device).name, seconds)
        finally:
            subprocess.run(("umount", mounted), check=True)
            subprocess.run(("losetup", "--detach", device), check=True)
    print(f"{core:.3f} % of a core (promised: {CORE}), {disk:.0f} MB a day (promised: {DISK})")
    sys.exit(core > CORE or disk > DISK)


def measured(root: Path, disk: str, seconds: int) -> tuple[float, float]:
    """Return per cent of a core, and MB a day that reach a disk with this root folder."""
    (root / "state").mkdir()
    fed = "exec \"$@\" < <(while :; do echo '61.42, 67, 2405'; sleep 1; done)"
    words = ["bash", "-c", fed, "-", *map(str, host_program("record", root))]
    process = subprocess.Popen(words, start_new_session=True)
    try:
        # Its start, and what the file system writes once.
        time.sleep(60)
        begun, before, used = time.monotonic(), written(disk), cpu(process.pid)
        time.sleep(seconds)
        passed = time.monotonic() - begun
        core = 100 * (cpu(process.pid) - used) / passed
        return core, (written(disk) - before) / passed * DAY / 1e6
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def written(disk: str) -> int:
    """Return the bytes written to a block device."""
    return int(Path(f"/sys/block/{disk}/stat").read_text().split()[6]) * 512


def cpu(pid: int) -> float:
    """Return the seconds of processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 400)
