"""Sparkwright as people install it: the wheels of this tree, and of others."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.clock import patience
from tests.driver.product import PROJECT

# Files of the root that a wheel is built of.
_FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "config.py", "inventory.py")


def wheel(folder: Path, version: str | None = None) -> Path:
    """Build the wheel of this tree, or of one that has another version."""
    tree = PROJECT
    if version:
        tree = folder / "tree"
        for name in ("sparkwright", "files", "deploys", "tests/verify", "docs/schemas"):
            shutil.copytree(PROJECT / name, tree / name)
        for name in _FILES:
            shutil.copy(PROJECT / name, tree / name)
        module = tree / "sparkwright/__init__.py"
        text, count = re.subn(r'(__version__ = )".*"', rf'\1"{version}"', module.read_text())
        assert count == 1
        module.write_text(text)
    return built(folder, tree)


def tagged_wheel(folder: Path) -> Path | None:
    """Build the wheel of the last version with a tag; None in a clone without tags."""
    git = ["git", "-C", str(PROJECT)]
    described = [*git, "describe", "--tags", "--abbrev=0", "--match", "v*"]
    tag = subprocess.run(described, capture_output=True, text=True, check=False).stdout.strip()
    if not tag:
        return None
    archive = subprocess.run([*git, "archive", tag], capture_output=True, check=True).stdout
    (tree := folder / "tree").mkdir()
    subprocess.run(["tar", "--extract", "--directory", tree], input=archive, check=True)
    return built(folder, tree)


def built(folder: Path, tree: Path) -> Path:
    """Build a tree's wheel into a folder."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", folder, tree], check=True, timeout=patience(300))
    return next(folder.glob("sparkwright-*.whl"))
