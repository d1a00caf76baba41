"""Judgment of a published recipe by the nearest release of vLLM, before it becomes ours.

The table of names has no values: whether an option takes the one given, only vLLM itself can tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkwright.common.schema import nearest
from sparkwright.declared.recipe.recipe import UNKNOWN_VLLM
from sparkwright.declared.recipe.vllm_names import Release, number, options, releases, table

# Releases that can judge (tests/recipes/releases.txt). The last is that of this project's catalog.
JUDGES = (
    *("0.17.0", "0.18.0", "0.19.1", "0.20.2", "0.23.0", "0.24.0", "0.27.1", "0.28.0"),
    "0.33.0",
)
# vllm/vllm-openai:v0.28.0, …:v0.28.0-aarch64, …:vllm-x86_64-cu13-0.25.1-7a33ba9
_RELEASE_IMAGE = re.compile(
    r"(.*/)?vllm/vllm-openai:([a-z][a-z0-9_-]*-)?v?(?P<release>[0-9]+\.[0-9]+\.[0-9]+)(-[a-z0-9.-]*)?"
)


@dataclass
class Judgment:
    """Findings about a recipe: sentences by our keys, and the names that were not judged."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    remarks: list[tuple[str, str]] = field(default_factory=list)


def version_of(image: str) -> tuple[str, str]:
    """Return an image's vLLM, as a recipe's ``vllm`` says it, and the release that judges it.

    That is the release whose number is nearest, the newer one of two; the newest of all for an
    image whose tag does not name one.
    """
    match = _RELEASE_IMAGE.fullmatch(image.partition("@")[0])
    if match is None:
        return UNKNOWN_VLLM, JUDGES[-1]

    def place(release: str) -> float:
        large, middle, small = number(release)
        return large * 1000 + middle + small / 10

    at = place(match["release"])
    return match["release"], min(reversed(JUDGES), key=lambda judge: abs(place(judge) - at))


def judge(
    vllm: str,
    by: str,
    args: Mapping[str, Any],
    env: Mapping[str, str],
    texts: Sequence[bytes],
) -> Judgment:
    """Judge the names of options and variables; the texts of mods may add some of their own."""
    found = Judgment()
    # A name that both releases beside one have, that one has as well.
    known, release = releases(), number(by)
    before = max((each for each in known if each <= release), default=known[0])
    after = min((each for each in known if each >= release), default=known[-1])
    lacks = f"vLLM {by} lacks"
    elsewhere: dict[str, list[str]] = {}
    for key in (*(f"args.{name}" for name in args), *(f"env.{name}" for name in env)):
        kind, _, name = key.partition(".")
        off = f"disable-{name.removeprefix('enable-')}"
        if kind == "env" and not name.startswith("VLLM_"):
            continue
        if _has(name, before, after):
            if args.get(name) is False and _has(off, before, after):
                # From 0.33.0 on such options are turned off by another word.
                found.problems.append((key, f"found --no-{name}; expected --{off}"))
        elif why := _elsewhere(name, before, after, vllm, texts):
            found.unjudged.append(name)
            elsewhere.setdefault(why, []).append(key)
        elif kind == "env":
            found.remarks.append((key, f"{lacks} it, and passes over it"))
        else:
            expected = nearest(name, options(before))
            found.problems.append((key, f"found it, but {lacks} it; {expected}"))
    for why, keys in elsewhere.items():
        more = f" (and {', '.join(keys[1:])})" if keys[1:] else ""
        found.remarks.append((keys[0], f"not judged{more}: {lacks} it, but {why}"))
    return found


def _has(name: str, before: Release, after: Release) -> bool:
    entry = table().get(name)
    return entry is not None and entry.first <= before and entry.last >= after


def _elsewhere(
    name: str, before: Release, after: Release, vllm: str, texts: Sequence[bytes]
) -> str | None:
    """Say why the image's vLLM may have a name that the nearest release lacks; None: it may not."""
    words = (name.encode(), name.replace("-", "_").encode())
    if any(word in text for text in texts for word in words):
        return "a mod names it"
    if vllm == UNKNOWN_VLLM:
        return "the image's own vLLM is not known"
    entry = table().get(name)
    beside = entry is not None and entry.last >= before and entry.first <= after
    return "a release beside it has it" if beside else None
