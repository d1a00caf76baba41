"""A git repository of recipes, as others publish them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

RECIPE = """\
recipe_version: "1"
name: Small
description: A small model
model: owner/Model-1B
container: example.org/vllm:nightly-20260704
mods: [mods/fix-template]
defaults: {port: 8000, tensor_parallel: 1}
command: |
  vllm serve owner/Model-1B \\
    --chat-template fixed.jinja \\
    --port {port} --host {host} \\
    -tp {tensor_parallel}
"""
MOD = "#!/bin/bash\nset -e\ncp fixed.jinja $WORKSPACE_DIR/fixed.jinja\n"
FILES = {
    "recipes/small.yaml": RECIPE,
    "recipes/wrong.yaml": RECIPE.replace("--chat-template fixed.jinja", "--uds /run/x"),
    "recipes/other.yaml": RECIPE.replace("description", "runtime: sglang\ndescription"),
    "mods/fix-template/run.sh": MOD,
    "mods/fix-template/fixed.jinja": "{{ messages }}\n",
    "README.md": "Recipes.\n",
}


class Repository:
    """A git repository in a folder."""

    def __init__(self, folder: Path, files: Mapping[str, str] = FILES) -> None:
        self.folder = folder
        self.url = f"file://{folder}"
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit(files)

    def git(self, *words: str, given: bytes = b"") -> str:
        """Run git there; return what it prints."""
        own = {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            "GIT_COMMITTER_DATE": "2026-06-13T12:00:00Z",
        }
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=os.environ | own, input=given, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def commit(self, files: Mapping[str, str]) -> str:
        """Write files, and commit all; return the commit."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=x")
        return self.head

    @property
    def head(self) -> str:
        """The commit that is checked out."""
        return self.git("rev-parse", "HEAD")

    def tree(self, *entries: tuple[str, str, str]) -> str:
        """Make a commit of a tree that no work tree could have: mode, object, name; return it."""
        content = b"".join(
            f"{mode.lstrip('0')} {name}\0".encode() + bytes.fromhex(each)
            for mode, each, name in entries
        )
        words = ("hash-object", "-t", "tree", "-w", "--stdin", "--literally")
        return self.git("commit-tree", "-m", "x", self.git(*words, given=content))

    def blob(self, content: bytes) -> str:
        """Write an object; return its name."""
        return self.git("hash-object", "-w", "--stdin", given=content)
