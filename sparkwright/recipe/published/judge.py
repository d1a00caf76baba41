"""Judgment of a published recipe by the nearest release of vLLM, before it becomes ours.

The table of names has no values: whether an option takes the one given, only vLLM itself can tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from sparkwright.common.schema import nearest
from sparkwright.recipe.recipe import UNKNOWN_VLLM
from sparkwright.recipe.values import RELEASE
from sparkwright.recipe.vllm_names import Release, number, options, releases, table

# Releases that can judge (tests/recipes/releases.txt), each with the day on which a public pull
# request had taken it, or a patch of it: kaito-project/kaito#1830, llm-d/llm-d#1059,
# docker/model-runner#876, vllm-project/vllm-metal#352, timothystewart6/vllm-gb10#12,
# PrimeIntellect-ai/OpenRLHF#5, vllm-project/vllm-metal#603, timothystewart6/vllm-gb10#102. The last
# is that of this project's own catalog, of the day on which it was last compared.
JUDGES = {
    "0.17.0": date(2026, 3, 9),
    "0.18.0": date(2026, 4, 2),
    "0.19.1": date(2026, 4, 21),
    "0.20.2": date(2026, 5, 8),
    "0.23.0": date(2026, 6, 19),
    "0.24.0": date(2026, 7, 1),
    "0.27.1": date(2026, 8, 13),
    "0.28.0": date(2026, 8, 26),
    "0.33.0": date(2026, 11, 22),
}
# v0.28.0, v0.28.0-aarch64, vllm-x86_64-cu13-0.25.1-7a33ba9
_RELEASE_TAG = re.compile(r"([a-z][a-z0-9_-]*-)?v?([0-9]+\.[0-9]+\.[0-9]+)(-[a-z0-9.-]*)?")
_DAY = re.compile(r"(?<![0-9])(202[0-9])(0[1-9]|1[0-2])(0[1-9]|1[0-9]|2[0-8])")
# nvcr.io/nvidia/vllm:26.07-py3
_MONTH = re.compile(r"nvcr\.io/nvidia/vllm:(2[0-9])\.(0[1-9]|1[0-2])")
# The tag that follows releases; others follow the source, which is nearer to the next release.
_NEWEST_RELEASE = "vllm/vllm-openai:latest"
# Images with vLLM as it is released, or as its main branch was on a day.
_STOCK = re.compile(
    r"vllm/vllm-openai:.*([0-9]\.[0-9]|latest|nightly).*|nvcr\.io/nvidia/vllm:.*"
    r"|eugr/spark-vllm:latest|ghcr\.io/spark-arena/dgx-vllm-eugr-nightly(-tf5)?[:@].*"
)
# Tried: InstantTensor 0.2.2, with io_uring refused as Docker's seccomp refuses it.
_INSTANTTENSOR = (
    "instanttensor reads by io_uring, which Docker's seccomp refuses to this container; "
    "InstantTensor 0.1.9 to 0.2.2 then reads by Linux AIO, or maps the files where "
    "INSTANTTENSOR_BACKEND is BUFFERED"
)


@dataclass
class Judgment:
    """Findings about a recipe: sentences by our keys, and the names that were not judged."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    remarks: list[tuple[str, str]] = field(default_factory=list)


def is_stock(image: str) -> bool:
    """Tell whether an image is known to have no fork of vLLM."""
    return _STOCK.fullmatch(image) is not None


def version_of(image: str, day: date | None, least: object = None) -> tuple[str, str | None]:
    """Return an image's vLLM, as a recipe's ``vllm`` says it, and the release that judges it.

    Args:
        image: With its tag.
        day: Of the recipe's commit; None: it is not known.
        least: The oldest release that the recipe says it needs.
    """
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    if "vllm/vllm-openai:" in image and (match := _RELEASE_TAG.fullmatch(tag)):
        return match[2], _by_number(match[2])
    if match := _DAY.search(tag):
        day = date(int(match[1]), int(match[2]), int(match[3]))
    elif match := _MONTH.search(image):
        day = date(2000 + int(match[1]), int(match[2]), 1)
    if day is None:
        return UNKNOWN_VLLM, None
    if image == _NEWEST_RELEASE:
        judge = max((each for each in JUDGES.items() if each[1] <= day), default=("0.17.0", day))[0]
    else:
        judge = min(JUDGES, key=lambda each: abs((JUDGES[each] - day).days))
    if RELEASE.fullmatch(str(least)) and number(judge) < number(str(least)):
        judge = _by_number(str(least))
    return UNKNOWN_VLLM, judge


def _by_number(release: str) -> str:
    """Return the judge whose number is nearest; of two the newer one."""

    def place(release: str) -> float:
        large, middle, small = number(release)
        return large * 1000 + middle + small / 10

    return min(reversed(JUDGES), key=lambda judge: abs(place(judge) - place(release)))


def judge(
    vllm: str,
    by: str | None,
    image: str,
    args: Mapping[str, Any],
    env: Mapping[str, str],
    texts: Sequence[bytes],
) -> Judgment:
    """Judge the names of options and variables; the texts of mods may add some of their own."""
    found = Judgment()
    if args.get("load-format") == "instanttensor":
        backends = {each.strip() for each in env.get("INSTANTTENSOR_BACKEND", "").split(",")}
        refused = backends <= {"URING", "URING_BUFFERED"}
        told = ("args.load-format", _INSTANTTENSOR)
        (found.problems if refused else found.remarks).append(told)
    if by is None:
        told = (
            "image",
            "neither its tag nor a commit says which vLLM it has: no option was judged",
        )
        found.remarks.append(told)
        return found
    # A name that both releases beside one have, that one has as well.
    known, release = releases(), number(by)
    before = max((each for each in known if each <= release), default=known[0])
    after = min((each for each in known if each >= release), default=known[-1])

    def has(name: str) -> bool:
        entry = table().get(name)
        return entry is not None and entry.first <= before and entry.last >= after

    lacks = f"vLLM {by}, the nearest, lacks"
    elsewhere: dict[str, list[str]] = {}
    for key in (*(f"args.{name}" for name in args), *(f"env.{name}" for name in env)):
        kind, _, name = key.partition(".")
        off = f"disable-{name.removeprefix('enable-')}"
        if kind == "env" and not name.startswith("VLLM_"):
            continue
        if has(name):
            if args.get(name) is False and has(off):
                # From 0.33.0 on such options are turned off by another word.
                found.problems.append((key, f"found --no-{name}; expected --{off}"))
        elif why := _elsewhere(name, before, after, vllm, image, texts):
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


def _elsewhere(
    name: str, before: Release, after: Release, vllm: str, image: str, texts: Sequence[bytes]
) -> str | None:
    """Say why the image's vLLM may have a name that the nearest release lacks; None: it may not."""
    words = (name.encode(), name.replace("-", "_").encode())
    if any(word in text for text in texts for word in words):
        return "a mod names it"
    if not is_stock(image):
        return "the image is not known to have vLLM as it is released"
    known = table().get(name)
    if known is None or known.last < before:
        return None
    if known.first <= after:
        return "a release beside it has it"
    later = "a later release has it, and the image's is not known"
    return later if vllm == UNKNOWN_VLLM else None
