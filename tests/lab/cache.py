"""What the lab builds once and keeps: folders, keyed by a hash of what they are built from."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
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

    `inputs` are all that the result depends on: texts, and files whose content counts. `build`
    fills the empty folder, once for the same inputs, also when two programs ask; if it fails,
    nothing is left. Then entries of this name go that were unused for a day: another checkout, or
    a lab that is up, may stand on younger ones.
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


def python(name: str, requirements: Path) -> Path:
    def build(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        pip = [folder / "env/bin/python", "-m", "pip", "install", "--quiet"]
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement"]
        subprocess.run([*pip, *options, requirements], check=True)

    return entry(name, [requirements, sys.version], build) / "env/bin/python"
