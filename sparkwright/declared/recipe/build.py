"""Images that a Spark builds itself: the inputs of such a build, and the name of its result."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from sparkwright.common.errors import PlanError
from sparkwright.common.paths import FILES
from sparkwright.common.schema import nearest
from sparkwright.declared.recipe.mods import ModFile, ModFolder, read_mods
from sparkwright.declared.recipe.values import ImageBuild, ImageMods
from sparkwright.declared.recipe.vllm_names import is_secret

FOLDERS = FILES / "images"

# What Sparkwright gives to the Dockerfile itself: the base by its digest.
BASE = "BASE"
_ARGUMENT = re.compile(r"^ARG +([A-Za-z_][A-Za-z0-9_]*)(=.*)?$", re.MULTILINE)

# The program of the steps that apply mods; no folder of a build, as it has no Dockerfile.
_APPLY = "apply.py"
_STEP = f"RUN --network={{}} --mount=source={_APPLY},target=/{_APPLY}"
# What the launchers do with each mod. Part of a derived image's name: another number where the same
# inputs would make another image.
_FORM = 1

# A file in the orders of a build: text, or ``base64`` and ``mode``.
OrderedFile = str | Mapping[str, object]


def build_files(build: ImageBuild | ImageMods) -> dict[str, OrderedFile]:
    """Return the files of a build, path -> content: all that its Dockerfile can copy.

    Hidden files are left out: those that editors and file managers leave behind would change the
    image's name.
    """
    if isinstance(build, ImageMods):
        mods = read_mods(build.mods)
        program = (FOLDERS / "mods" / _APPLY).read_text(encoding="utf-8")
        files = {
            f"mods/{mod.name}/{path}": _ordered(file)
            for mod in mods
            for path, file in mod.files.items()
        }
        return {"Dockerfile": "\n".join(_dockerfile(build, mods)) + "\n", _APPLY: program, **files}
    known = sorted(path.parent.name for path in FOLDERS.glob("*/Dockerfile"))
    if build.build not in known:
        expected = nearest(build.build, known)
        raise PlanError(f"{FOLDERS}: found no {build.build}/Dockerfile; {expected}")
    paths = sorted(path for path in (FOLDERS / build.build).glob("[!.]*") if path.is_file())
    return {path.name: _ordered(ModFile(path.read_bytes(), executable=False)) for path in paths}


def _dockerfile(build: ImageMods, mods: list[ModFolder]) -> Iterator[str]:
    offline = _STEP.format("none")
    yield f"ARG {BASE}"
    yield f"FROM ${{{BASE}}} AS base"
    yield "FROM base AS before"
    yield f'{offline} ["python3", "/{_APPLY}", "version", "/vllm.version"]'
    yield "FROM base"
    for mod in mods:
        folder = f"/workspace/mods/{mod.name}/"
        step = _STEP.format("default" if mod.is_online else "none")
        yield f"COPY {json.dumps([f'mods/{mod.name}/', folder])}"
        yield f"{step} {json.dumps(['python3', f'/{_APPLY}', 'run', mod.name])}"
    words = ["python3", f"/{_APPLY}", "verify", "/vllm.version", build.vllm or ""]
    before = "--mount=from=before,source=/vllm.version,target=/vllm.version"
    yield f"{offline} {before} {json.dumps(words)}"


def _ordered(file: ModFile) -> OrderedFile:
    """Return a file as orders have it: text where it is text that no one executes."""
    with suppress(UnicodeDecodeError):
        if not file.executable:
            return file.content.decode()
    mode = 0o755 if file.executable else 0o644
    return {"base64": base64.b64encode(file.content).decode(), "mode": mode}


def build_problems(build: ImageBuild | ImageMods) -> Iterator[str]:
    """Yield the faults of a build, as ``KEY: found X; expected Y``."""
    key = "image.mods" if isinstance(build, ImageMods) else "image.build"
    try:
        if isinstance(build, ImageMods):
            for mod in read_mods(build.mods):
                yield from (f"{key}: {problem}" for problem in mod.impossible())
            return
        dockerfile = str(build_files(build)["Dockerfile"])
    except PlanError as error:
        yield from (f"{key}: {problem}" for problem in error.problems)
        return
    declared = {name: bool(default) for name, default in _ARGUMENT.findall(dockerfile)}
    if declared.pop(BASE, None) is None:
        yield f"{key}: found no `ARG {BASE}` in {build.build}/Dockerfile; expected one"
    for name in build.args:
        if is_secret(name):
            yield f"image.args.{name}: found a secret's name; expected no secret in a recipe"
        elif name not in declared:
            yield f"image.args.{name}: found an unknown name; {nearest(name, declared)}"
    for name, has_default in declared.items():
        if not has_default and name not in build.args:
            yield f"image.args: found no {name}; expected it: {build.build}/Dockerfile needs it"


def build_name(build: ImageBuild | ImageMods, base_digest: str) -> str:
    """Name the image that a build makes: ``sparkwright/FOLDER:<12 hex of all its inputs>``."""
    inputs: list[object]
    if isinstance(build, ImageMods):
        # Without `_APPLY`: what it checks may become stricter without another image.
        words = [mod.word for mod in read_mods(build.mods)]
        inputs = [_FORM, base_digest, words, build.vllm]
    else:
        inputs = [build_files(build), base_digest, build.args]
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    return f"{build.repository}:{digest[:12]}"
