"""The watchdog of the machine: whether there is one, and what has systemd serve it."""

import os
import re
from typing import Any

from host.state.readers import names, output, text, word

_FOLDERS = ("/etc", "/run", "/usr/local/lib", "/usr/lib")
_SET = re.compile(r"^[ \t]*RuntimeWatchdogSec[ \t]*=[ \t]*\S", re.MULTILINE)
_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")


def read(ours: str) -> dict[str, Any]:
    """Return the watchdog; `ours` is the file that sets it for us."""
    # The kernel makes them by the firmware's tables, with or without a driver.
    devices = names("/sys/bus/platform/devices")
    arms = any(name.startswith("sbsa-gwdt") for name in devices)
    return {
        "device": os.path.exists("/dev/watchdog0"),
        "offered": arms and bool(output("modinfo", "--field=filename", "sbsa_gwdt")),
        "set_by": _set_by(ours),
        "seconds": _seconds(),
    }


def _set_by(ours: str) -> str:
    if "systemd.watchdog_sec=" in word("/proc/cmdline"):
        return "the kernel's command line"
    folders = [f"{folder}/systemd/system.conf.d" for folder in _FOLDERS]
    files = [f"{folder}/{name}" for folder in folders for name in names(folder)]
    others = (path for path in files if path.endswith(".conf") and path != ours)
    paths = ("/etc/systemd/system.conf", *others)
    return next((path for path in paths if _SET.search(text(path) or "")), "")


def _seconds() -> int | None:
    # systemctl would write "1min 30s".
    asked = ("busctl", "get-property", *_MANAGER, f"{_MANAGER[0]}.Manager", "RuntimeWatchdogUSec")
    microseconds = output(*asked).strip().removeprefix("t ")
    return int(microseconds) // 10**6 if microseconds.isdecimal() else None
