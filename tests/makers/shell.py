"""Shell scripts, and programs that stand in for those that they call."""

import os
import subprocess
from pathlib import Path


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def shell(
    script: str, folder: Path | None = None, check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    path = f"{folder}:{os.environ['PATH']}" if folder else os.environ["PATH"]
    return subprocess.run(
        ["sh", "-c", script],
        env=os.environ | {"PATH": path} | environment,
        capture_output=True,
        text=True,
        check=check,
    )
