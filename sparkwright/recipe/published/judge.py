"""Judgment of a published recipe by the nearest release of vLLM, before it becomes ours.

The table of names has no values: whether an option takes the one given, only vLLM itself can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import nearest
from sparkwright.recipe.mods import read_mods
from sparkwright.recipe.published.versions import Version, is_stock
from sparkwright.recipe.recipe import UNKNOWN_VLLM
from sparkwright.recipe.vllm_names import Release, number, options, releases, table

# Tried: InstantTensor 0.2.2, with io_uring refused as Docker's seccomp refuses it.
_INSTANTTENSOR = (
    "reads by io_uring, which Docker's seccomp refuses to this container; InstantTensor 0.1.9 to "
    "0.2.2 then reads by Linux AIO, or maps the files where INSTANTTENSOR_BACKEND is BUFFERED"
)
_URING = {"URING", "URING_BUFFERED"}


@dataclass
class Judgment:
    """Findings about a recipe: sentences by our keys, and the names that were not judged."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    remarks: list[tuple[str, str]] = field(default_factory=list)


def judge(
    version: Version,
    image: str,
    args: Mapping[str, Any],
    env: Mapping[str, str],
    mods: Sequence[Path],
) -> Judgment:
    """Judge the names of options and variables; mods, folders here, may add some of their own."""
    found = Judgment()
    if args.get("load-format") == "instanttensor":
        backends = {each.strip() for each in env.get("INSTANTTENSOR_BACKEND", "").split(",")}
        key, told = "args.load-format", f"instanttensor {_INSTANTTENSOR}"
        (found.problems if backends <= _URING else found.remarks).append((key, told))
    if version.judge is None:
        told = "neither its tag nor a commit says which vLLM it has: no option was judged"
        found.remarks.append(("image", told))
        return found
    release = number(version.judge)
    texts: list[bytes] = []
    # The check of the recipe says which mods cannot be read.
    with suppress(PlanError):
        texts = [file.content for mod in read_mods(mods) for file in mod.files.values()]
    names = [("args", name) for name in args]
    names += [("env", name) for name in env if name.startswith("VLLM_")]
    lacks = f"vLLM {version.judge}, the nearest, lacks"
    elsewhere: dict[str, list[str]] = {}
    for kind, name in names:
        key, off = f"{kind}.{name}", f"disable-{name.removeprefix('enable-')}"
        if _has(release, name):
            if args.get(name) is False and _has(release, off):
                # From 0.33.0 on such options are turned off by another word.
                found.problems.append((key, f"found --no-{name}; expected --{off}"))
            continue
        if why := _elsewhere(version, image, name, texts):
            found.unjudged.append(name)
            elsewhere.setdefault(why, []).append(key)
        elif kind == "env":
            found.remarks.append((key, f"{lacks} it, and passes over it"))
        else:
            known = nearest(name, options(_beside(release)[0]))
            found.problems.append((key, f"found it, but {lacks} it; {known}"))
    for why, keys in elsewhere.items():
        more = f" (and {', '.join(keys[1:])})" if keys[1:] else ""
        found.remarks.append((keys[0], f"not judged{more}: {lacks} it, but {why}"))
    return found


def _has(release: Release, name: str) -> bool:
    """Tell whether both releases beside one have a name: that one has it as well, then."""
    before, after = _beside(release)
    known = table().get(name)
    return known is not None and known.first <= before and known.last >= after


def _beside(release: Release) -> tuple[Release, Release]:
    """Return the releases of the table on both sides of one; itself, where the table has it."""
    known = releases()
    before = max((each for each in known if each <= release), default=known[0])
    return before, min((each for each in known if each >= release), default=known[-1])


def _elsewhere(version: Version, image: str, name: str, texts: Sequence[bytes]) -> str | None:
    """Say why the image's vLLM may have a name that the nearest release lacks; None: it may not."""
    words = [name.encode(), name.replace("-", "_").encode()]
    if any(word in text for text in texts for word in words):
        return "a mod names it"
    if not is_stock(image):
        return "the image is not known to have vLLM as it is released"
    known = table().get(name)
    before, after = _beside(number(str(version.judge)))
    if known is None or known.last < before:
        return None
    if known.first <= after:
        return "a release beside it has it"
    moves = version.vllm == UNKNOWN_VLLM
    return "a later release has it, and the image's is not known" if moves else None
