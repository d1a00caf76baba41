"""Whoever asks a program of ours what it does gets an answer, and nothing else happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clock import patience

PROJECT = Path(__file__).parents[2]
# Parts of others: what runs only inside of an image or a root that is being built (each byte of it
# is a part of the image's name: a parser would have Sparks build theirs anew), is brought in by
# Python's -c, or plays a part in one test.
PARTS = (
    *("files/images/", "files/benchmark/bench_tool.py", "tests/lab/engine/", "tests/lab/standin/"),
    *("tests/recipes/inside/", "tests/recipes/kv_layout.py", "tests/forked.py"),
    *("tests/contract/inside.py", "tests/component/engine/", "tests/component/gateway/"),
    # It needs an environment of its own, as its tests have it.
    "files/gateway/",
)


def _programs() -> list[str]:
    found = [*PROJECT.glob("*/**/*.py")]
    paths = {path.relative_to(PROJECT).as_posix(): path for path in found}
    return sorted(
        name
        for name, path in paths.items()
        if name.startswith(("files/", "deploys/", "sparkwright/", "tests/"))
        and not name.startswith(PARTS)
        and re.search(r'^if __name__ == "__main__":', path.read_text(), re.MULTILINE)
    )


@pytest.mark.parametrize("program", _programs())
def test_it_says_what_it_is_for(program: str, tmp_path: Path) -> None:
    path = PROJECT / program
    module = program.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
    ours = not program.startswith("files/")
    command = [sys.executable, "-B", *(["-m", module] if ours else [str(path)]), "--help"]
    # On a Spark they lie in one folder.
    folders = [PROJECT, *(PROJECT / "files").iterdir()] if not ours else [PROJECT]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    assert list(tmp_path.iterdir()) == []
