"""The running kernel, and the memory that it and the driver keep."""

import os
from typing import Any

from host.state.readers import meminfo, text, word


def read(root: str = "") -> dict[str, Any]:
    """Return the kernel: its release, what it was booted with, and what it keeps for itself."""
    memory = meminfo()
    parameters = (text("/proc/driver/nvidia/params") or "").splitlines()
    pools = next((row for row in parameters if row.startswith("EnableSystemMemoryPools:")), "")
    return {
        "release": os.uname().release,
        "command_line": word("/proc/cmdline"),
        # The reserve for kexec handover (KHO) lies in no area that CmaTotal counts, and its free
        # pages are in CmaFree (NVIDIA/NV-Kernels#590).
        "handover": max(0, memory.get("CmaFree", 0) - memory.get("CmaTotal", 0)),
        "pools": pools.partition(":")[2].strip() not in ("", "0"),
    }
