"""Which vLLM the image of a published recipe has, as far as it can be told without the image."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from sparkwright.recipe.recipe import UNKNOWN_VLLM
from sparkwright.recipe.values import RELEASE
from sparkwright.recipe.vllm_names import number

# Releases that can judge (tests/recipes/releases.txt), each with the day on which a public pull
# request had taken it, or a patch of it: kaito-project/kaito#1830, llm-d/llm-d#1059,
# docker/model-runner#876, vllm-project/vllm-metal#352, timothystewart6/vllm-gb10#12,
# PrimeIntellect-ai/OpenRLHF#5, vllm-project/vllm-metal#603, timothystewart6/vllm-gb10#102. The last
# is that of this project's own catalog, of the day on which it was last compared.
JUDGES = (
    ("0.17.0", date(2026, 3, 9)),
    ("0.18.0", date(2026, 4, 2)),
    ("0.19.1", date(2026, 4, 21)),
    ("0.20.2", date(2026, 5, 8)),
    ("0.23.0", date(2026, 6, 19)),
    ("0.24.0", date(2026, 7, 1)),
    ("0.27.1", date(2026, 8, 13)),
    ("0.28.0", date(2026, 8, 26)),
    ("0.33.0", date(2026, 11, 22)),
)

# v0.28.0, v0.28.0-aarch64, vllm-x86_64-cu13-0.25.1-7a33ba9
_RELEASE_TAG = re.compile(r"([a-z][a-z0-9_-]*-)?v?([0-9]+\.[0-9]+\.[0-9]+)(-[a-z0-9.-]*)?")
_DAY = re.compile(r"(?<![0-9])(202[0-9])(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])(?![0-9])")
# nvcr.io/nvidia/vllm:26.07-py3
_MONTH = re.compile(r"nvcr\.io/nvidia/vllm:(2[0-9])\.(0[1-9]|1[0-2])")
# A version of vLLM of setuptools-scm: 0.28.1rc1.dev345+g4cc0cb6f7.d20260903
_BUILD = re.compile(r"(?P<next>[0-9]+\.[0-9]+(\.[0-9]+)?)(rc[0-9]+|\.?dev[0-9]+|\+).*")
# The tag that follows releases; others follow the source, which is nearer to the next release.
_NEWEST_RELEASE = "vllm/vllm-openai:latest"
# Images with vLLM as it is released, or as its main branch was on a day.
_STOCK = re.compile(
    r"vllm/vllm-openai:.*([0-9]\.[0-9]|latest|nightly).*|nvcr\.io/nvidia/vllm:.*"
    r"|eugr/spark-vllm:latest|ghcr\.io/spark-arena/dgx-vllm-eugr-nightly(-tf5)?[:@].*"
)
# What such a version begins with where the source had no tags.
_UNTAGGED = "0.1"


@dataclass(frozen=True)
class Version:
    """What is known of an image's vLLM.

    Attributes:
        vllm: As a recipe's ``vllm`` says it.
        judged_by: The nearest release that can judge; None where ``vllm`` is one, or nothing is
            known.
    """

    vllm: str
    judged_by: str | None = None

    @property
    def judge(self) -> str | None:
        """The release that judges; None: nothing is known."""
        return self.judged_by or (self.vllm if RELEASE.fullmatch(self.vllm) else None)


def is_stock(image: str) -> bool:
    """Tell whether an image is known to have no fork of vLLM."""
    return _STOCK.fullmatch(image) is not None


def version_of(image: str, said: str | None, day: date | None, least: str | None = None) -> Version:
    """Tell an image's vLLM.

    Args:
        image: With its tag.
        said: The version that the recipe says, such as 0.28.0 or that of a build of a day.
        day: Of the recipe's commit; None: it is not known.
        least: The oldest release that the recipe says it needs.
    """
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    if said and RELEASE.fullmatch(said):
        return _known(said)
    if said and (build := _BUILD.fullmatch(said)):
        built = _day(said)
        if build["next"] != _UNTAGGED:
            return Version(said, _by_number(build["next"]))
        return Version(UNKNOWN_VLLM, _by_day(built) if built else None)
    if "vllm/vllm-openai:" in image and (match := _RELEASE_TAG.fullmatch(tag)):
        return _known(match[2])
    if day := _day(tag) or _month(image) or day:
        judge = _newest(day) if image == _NEWEST_RELEASE else _by_day(day)
        if least and RELEASE.fullmatch(least) and number(judge) < number(least):
            judge = _by_number(least)
        return Version(UNKNOWN_VLLM, judge)
    return Version(UNKNOWN_VLLM)


def _known(release: str) -> Version:
    judges = [judge for judge, _ in JUDGES]
    return Version(release, None if release in judges else _by_number(release))


def _by_day(day: date) -> str:
    return min(JUDGES, key=lambda judge: abs((judge[1] - day).days))[0]


def _newest(day: date) -> str:
    return next((judge for judge, since in reversed(JUDGES) if since <= day), JUDGES[0][0])


def _by_number(release: str) -> str:
    """Return the judge whose number is nearest; of two the newer one."""
    wanted = _place(number(release))
    return min(reversed(JUDGES), key=lambda judge: abs(_place(number(judge[0])) - wanted))[0]


def _place(numbers: tuple[int, ...]) -> float:
    return numbers[0] * 1000 + numbers[1] + (numbers[2] if len(numbers) > 2 else 0) / 10


def _day(text: str) -> date | None:
    match = _DAY.search(text)
    return date(int(match[1]), int(match[2]), min(int(match[3]), 28)) if match else None


def _month(image: str) -> date | None:
    match = _MONTH.search(image)
    return date(2000 + int(match[1]), int(match[2]), 1) if match else None
