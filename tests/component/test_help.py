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
# is a part of the image's name: a parser would have Sparks build theirs anew), or plays a part in
# one test; what takes the arguments of another program; and the programs of a Spark, whose --help
# has a test beside their archive.
PARTS = (
    *("tests/lab/engine/", "tests/lab/standin/", "sparkwright/cli/start.py"),
    *("tests/recipes/inside/", "tests/recipes/kv_layout.py", "tests/forked.py"),
    "tests/recipes/text_config.py",
    *("tests/contract/inside.py", "tests/component/engine/", "tests/component/gateway/"),
)


def _programs() -> list[str]:
    found = [*PROJECT.glob("*/**/*.py")]
    paths = {path.relative_to(PROJECT).as_posix(): path for path in found}
    return sorted(
        name
        for name, path in paths.items()
        if name.startswith(("deploys/", "sparkwright/", "tests/"))
        and not name.startswith(PARTS)
        and re.search(r'^if __name__ == "__main__":', path.read_text(), re.MULTILINE)
    )


@pytest.mark.parametrize("program", _programs())
def test_it_says_what_it_is_for(program: str, tmp_path: Path) -> None:
    module = program.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
    done = subprocess.run(
        [sys.executable, "-B", "-m", module, "--help"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PROJECT), "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    assert list(tmp_path.iterdir()) == []
