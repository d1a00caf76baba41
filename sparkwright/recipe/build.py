"""Images that a Spark builds itself: the inputs of such a build, and the name of its result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.paths import FILES
from sparkwright.common.schema import nearest
from sparkwright.recipe.values import ImageBuild
from sparkwright.recipe.vllm_names import is_secret

FOLDERS = FILES / "images"

# Bytes of disk that a build takes besides its base: half is ccache's limit (10 GB in the
# Dockerfiles), half our estimate for source, objects and the result. Not measured.
DISK = 20 * 10**9

# What Sparkwright gives to the Dockerfile itself: the base by its digest.
BASE = "BASE"
_ARGUMENT = re.compile(r"^ARG +([A-Za-z_][A-Za-z0-9_]*)(=.*)?$", re.MULTILINE)


def build_files(build: ImageBuild, folders: Path = FOLDERS) -> dict[str, str]:
    """Return the files of a build, name -> text: all that its Dockerfile can copy.

    Hidden files are left out: those that editors and file managers leave behind would change the
    image's name.

    Args:
        folders: The folder of all builds.

    Raises:
        PlanError: There is no such folder (with the nearest name), or a file in it is no text.
    """
    known = sorted(path.parent.name for path in folders.glob("*/Dockerfile"))
    if build.build not in known:
        expected = nearest(build.build, known)
        raise PlanError(f"{folders}: found no {build.build}/Dockerfile; {expected}")
    files = sorted(path for path in (folders / build.build).glob("[!.]*") if path.is_file())
    return {path.name: _text(path) for path in files}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}: cannot be read as UTF-8 text ({error})") from None


def build_problems(build: ImageBuild, folders: Path = FOLDERS) -> Iterator[str]:
    """Yield the faults of a build, as ``KEY: found X; expected Y``.

    Args:
        folders: The folder of all builds.
    """
    try:
        dockerfile = build_files(build, folders)["Dockerfile"]
    except PlanError as error:
        yield f"image.build: {error}"
        return
    declared = {name: bool(default) for name, default in _ARGUMENT.findall(dockerfile)}
    if declared.pop(BASE, None) is None:
        yield f"image.build: found no `ARG {BASE}` in {build.build}/Dockerfile; expected one"
    for name in build.args:
        if is_secret(name):
            yield f"image.args.{name}: found a secret's name; expected no secret in a recipe"
        elif name not in declared:
            yield f"image.args.{name}: found an unknown name; {nearest(name, declared)}"
    for name, has_default in declared.items():
        if not has_default and name not in build.args:
            yield f"image.args: found no {name}; expected it: {build.build}/Dockerfile needs it"


def build_name(build: ImageBuild, base_digest: str, folders: Path = FOLDERS) -> str:
    """Name the image that a build makes: ``sparkwright/FOLDER:<12 hex of all its inputs>``.

    Args:
        base_digest: Digest of the image that it is built on, ``sha256:…``.
        folders: The folder of all builds.

    Raises:
        PlanError: There is no such folder.
    """
    inputs = [build_files(build, folders), base_digest, build.args]
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    return f"sparkwright/{build.build}:{digest[:12]}"
