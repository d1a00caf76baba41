"""Copies of the tree, and pytest in them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]


# In a mount namespace of its own, each run of pytest finds an empty disk here.
MARKS = Path("/mnt")


def tracked() -> list[Path]:
    """Return the files that git tracks or would track, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(command, cwd=ROOT, text=True).rstrip("\0").split("\0")
    return sorted(Path(name) for name in names if (ROOT / name).is_file())


@contextmanager
def copies(edits: Mapping[Path, str]) -> Iterator[Callable[[], AbstractContextManager[Path]]]:
    """Copy the tracked files once; yield what makes copies of the copy.

    Args:
        edits: What files contain instead.
    """
    with TemporaryDirectory(prefix="sparkwright-mutants-") as folder:
        first = Path(folder) / "first"
        for path in tracked():
            (first / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, first / path)
        for path, text in edits.items():
            (first / path).write_text(text)
        subprocess.run([sys.executable, "-m", "compileall", "-q", first], check=True)

        @contextmanager
        def copy() -> Iterator[Path]:
            with TemporaryDirectory(dir=folder) as name:
                yield shutil.copytree(first, Path(name) / "tree", symlinks=True)

        yield copy


def pytest(
    tree: Path, words: Sequence[str], timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a copy; whatever it leaves running or mounted ends with it.

    Args:
        tree: The copy.
        words: Options and tests.
        timeout: In seconds.

    Raises:
        subprocess.TimeoutExpired: It took longer.
    """
    own = "setpriv --pdeathsig KILL unshare --mount --mount-proc --pid --fork --kill-child"
    # The shell stays, as the parent of processes that have lost theirs.
    shell = ["sh", "-c", 'mount -t tmpfs marks "$0" && "$@"; exit $?', str(MARKS)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        [*own.split(), *shell, *command],
        cwd=tree,
        # In CI a skipped test counts as failed.
        env={name: value for name, value in os.environ.items() if name != "CI"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
