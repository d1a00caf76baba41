"""The speed of RDMA writes to the other Spark of a pair, by one twin."""

import time
from typing import Any

from host.state.readers import UnknownError, run


def read(device: str, gid: int, port: int, address: str, patience: float) -> dict[str, Any]:
    """Return the Gb/s, measured as soon as the peer waits at its address; None without a result.

    Args:
        patience: Seconds for a measurement; for half of it the peer is waited for.
    """
    words = ("ib_write_bw", "-d", device, "-i", "1", "-x", f"{gid}", "-p", f"{port}", "-F")
    end = time.monotonic() + patience / 2
    while True:
        try:
            done = run(*words, "--report_gbits", address, patience=patience)
        except UnknownError:
            return {"gbits": None}
        if done.returncode == 0 or time.monotonic() > end:
            return {"gbits": gbits(done.stdout)}
        time.sleep(1)


def gbits(output: str) -> float | None:
    """Return the column `BW average[Gb/sec]` of the output's last row; None without a row."""
    rows = map(str.split, output.splitlines())
    values = [float(row[3]) for row in rows if len(row) in (4, 5) and row[0].isdecimal()]
    return values[-1] if values else None
