"""What the lab builds once and keeps: folders, keyed by a hash of what they are built from."""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

_UNUSED = 24 * 60 * 60  # seconds


def cache_folder() -> Path:
    """Return the folder that holds all entries; SPARKWRIGHT_CACHE overrides the XDG default."""
    xdg = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("SPARKWRIGHT_CACHE") or xdg / "sparkwright")


def entry(name: str, inputs: str | list[Path | str], build: Callable[[Path], None]) -> Path:
    """Return the folder of an entry, built first if it is not there.

    Args:
        name: what the entry is, for people: `rootfs`, `engine-image`.
        inputs: everything the result depends on: texts, and files whose content counts.
        build: fills the empty folder that it is given. It runs at most once for the same inputs,
            also when two programs ask at the same time; a failed build leaves nothing.

    After a build, entries of the same name that went unused for a day are removed. Younger ones
    stay: another checkout, or a lab that is up, may stand on them.
    """
    digest = hashlib.sha256()
    for item in [inputs] if isinstance(inputs, str) else inputs:
        content = item.read_bytes() if isinstance(item, Path) else item.encode()
        digest.update(hashlib.sha256(content).digest())
    root = cache_folder()
    root.mkdir(parents=True, exist_ok=True)
    final = root / f"{name}-{digest.hexdigest()[:12]}"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if final.exists():
            os.utime(final)
            return final
        partial = final.with_name(f"{final.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            build(partial)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        partial.rename(final)
        for old in root.glob(f"{name}-" + "?" * 12):
            if old.is_dir() and old.stat().st_mtime < time.time() - _UNUSED:
                shutil.rmtree(old, ignore_errors=True)
    return final
