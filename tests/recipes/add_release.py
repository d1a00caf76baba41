"""Adds releases of vLLM to releases.txt, with the hash that pip's index has.

    python -m tests.recipes.add_release [RELEASE …]

By default those by which recipes are checked and which the list lacks. Downloads no release yet.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence

from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from tests.lab.state import LabError
from tests.recipes.releases import _PLATFORMS, LIST, known, number


def checked_by() -> set[str]:
    """Return the releases of vLLM by which our recipes are checked."""
    recipes = map(load_recipe, recipe_names())
    return {recipe.judge for recipe in recipes if recipe.release}


def lacking() -> list[str]:
    """Return those of them that releases.txt lacks."""
    return sorted(checked_by() - {*known()}, key=number)


def add(versions: Iterable[str]) -> None:
    """Add releases to releases.txt, each in its place.

    Raises:
        LabError: pip's index has no such release.
    """
    lines = LIST.read_text().splitlines()
    listed = {line.split()[0]: line for line in lines if line.startswith("vllm==")}
    listed |= {f"vllm=={each}": f"vllm=={each} --hash=sha256:{sha256(each)}" for each in versions}
    ordered = sorted(listed, key=lambda name: number(name.removeprefix("vllm==")))
    head = [line for line in lines if line.startswith("#")]
    others = [line for line in lines if not line.startswith(("#", "vllm=="))]
    LIST.write_text("\n".join([*head, *(listed[name] for name in ordered), *others, ""]))


def sha256(version: str) -> str:
    """Return the hash of the wheel that pip would download.

    Raises:
        LabError: pip's index has no such release.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--dry-run", "--ignore-installed", "--no-cache-dir", "--target=none", "--no-deps"]
    pip += ["--only-binary=:all:", "--python-version=3.11"]
    pip += [f"--platform={name}" for name in _PLATFORMS]
    done = subprocess.run(
        [*pip, "--report=-", f"vllm=={version}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"pip: {done.stderr[-5000:]}")
    (wheel,) = json.loads(done.stdout)["install"]
    return str(wheel["download_info"]["archive_info"]["hashes"]["sha256"])


def main(words: Sequence[str] | None = None) -> int:
    """Add releases to the list. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.recipes.add_release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help="a version of vLLM")
    versions = parser.parse_args(words).releases or lacking()
    try:
        add(versions)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{LIST}: {', '.join(versions) or 'nothing'} added")
    return 0


if __name__ == "__main__":
    sys.exit(main())
