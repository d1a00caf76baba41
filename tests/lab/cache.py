"""What the lab builds once and keeps: folders, keyed by a hash of what they are built from."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path


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

    Older entries of the same name are removed after a successful build, so that the cache
    holds one of each.
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
            if old != final and old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
    return final
