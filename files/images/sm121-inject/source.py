"""source COMMIT FOLDER: get vLLM's source, if this image's vLLM was built from it.

Writes the version of this image's vLLM to FOLDER.version.
"""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

REPOSITORY = "https://github.com/vllm-project/vllm.git"


def git(*words: str) -> str:
    """Run git and return what it prints."""
    done = subprocess.run(["git", *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main(commit: str, folder: str) -> None:
    """Do it."""
    installed = version("vllm")
    # A version between two releases ends with its commit; a release has a tag of its name.
    built = re.search(r"\+g([0-9a-f]+)", installed)
    if built:
        fits = commit.startswith(built[1])
    else:
        tag = f"refs/tags/v{installed.partition('+')[0]}"
        fits = commit in git("ls-remote", REPOSITORY, tag, f"{tag}^{{}}")
    if len(commit) != 40 or not fits:
        sys.exit(f"vLLM {installed} of this image was not built from {commit or 'no commit'}")
    git("init", "--quiet", folder)
    git("-C", folder, "fetch", "--quiet", "--depth=1", REPOSITORY, commit)
    git("-C", folder, "checkout", "--quiet", "FETCH_HEAD")
    Path(f"{folder}.version").write_text(installed, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
