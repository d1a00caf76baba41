"""The identity of this boot: what was noted in another one, a power cut may have ended."""

from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the kernel's name of this boot."""
    return BOOT_ID.read_text("utf-8").strip()
