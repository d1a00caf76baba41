"""The programs of a Spark, as one has them: the archive that a run puts there."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sparkwright.common.paths import FILES
from sparkwright.plan.release.programs import spark_programs
from tests.clock import patience


def host_program(subcommand: str, *words: object) -> list[str]:
    """Return the command of a subcommand of `sparkwright-host`."""
    archive = Path(_folder().name, "sparkwright-host")
    return [sys.executable, "-B", str(archive), subcommand, *map(str, words)]


def changed_program(text: str, *words: object) -> list[str]:
    """Return the command of a program that changes some of `host`, and then runs it."""
    found = f"import sys; sys.path[:0] = {[str(FILES), str(FILES.parent)]!r}\n{text}"
    return [sys.executable, "-B", "-c", found, *map(str, words)]


def ended(words: Sequence[str | Path], **how: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, whatever that is; nothing is typed, and what it says is kept."""
    kept = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "input": "", "text": True}
    return subprocess.run(words, **{"check": False, "timeout": patience(), **kept, **how})


def script(path: Path, text: str) -> None:
    """Write a program that stands in for another."""
    path.write_text(text)
    path.chmod(0o755)


@cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    """Return a folder with the archive, which goes with the process that made it."""
    folder = tempfile.TemporaryDirectory(prefix="sparkwright-host-")
    Path(folder.name, "sparkwright-host").write_bytes(spark_programs())
    return folder
