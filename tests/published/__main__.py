"""Says of published recipes which are taken, and whether the vLLM of their image takes them.

    python -m tests.published [--quiet] CHECKOUT …

CHECKOUT is a folder, or another source as `sparkwright recipes import` names it. Mods that one
lacks are looked for in the others. At the end stands a table, as in docs/recipes.md. Judging needs
root and x86_64; the first time it downloads.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.published.document import NotForUs
from sparkwright.declared.recipe.published.sources import Checkout, checkout_of, entries
from sparkwright.declared.recipe.published.translated import Translated
from sparkwright.declared.recipe.recipe import UNKNOWN_VLLM, Recipe
from tests.recipes import releases
from tests.recipes.judge import Case, judge

_FILES = ("chat-template", "tool-parser-plugin", "reasoning-parser-plugin")
_ENDINGS = (".jinja", ".py")
_NAMED_BY = {
    "tool-parser-plugin": "tool-call-parser",
    "reasoning-parser-plugin": "reasoning-parser",
}
_UNKNOWN = re.compile(r": (?:by_sparks\.\d\.)?env\.(\w+): found .* for a variable that vLLM")
# What the lab's image lacks of a release's requirements: its parser has judged, before that.
_LACKS = "takes: No module named"


@dataclass
class Result:
    """What became of the recipes of a source.

    Attributes:
        checkout: The source.
        taken: Recipes that ours accept, and that their vLLM accepts or nobody has judged.
        unjudged: Those of them that no release has judged.
        doubted: What the newest release refuses of those whose image does not name its own.
        unknown: Variables by recipe that the vLLM does not know: it warns, and starts.
        refused: Problems by recipe, each with file and line: what we do not take.
        wrong: Problems by recipe, each with file and line: what its vLLM refuses.
        others: Recipes for others, by the reason.
    """

    checkout: Checkout
    taken: dict[str, Recipe] = field(default_factory=dict)
    unjudged: set[str] = field(default_factory=set)
    doubted: dict[str, Sequence[str]] = field(default_factory=dict)
    unknown: dict[str, Sequence[str]] = field(default_factory=dict)
    refused: dict[str, Sequence[str]] = field(default_factory=dict)
    wrong: dict[str, Sequence[str]] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Recipes for vLLM on one Spark or two."""
        return len(self.taken) + len(self.refused) + len(self.wrong)


def results(sources: Sequence[str], *, judged: bool = True) -> list[Result]:
    """Read the recipes of sources, and let their vLLM judge them, all together.

    Args:
        sources: As the command line has them.
        judged: Let vLLM judge.

    Raises:
        PlanError: There is no such source.
        LabError: A release cannot be had.
    """
    with ExitStack() as opened:
        checkouts = [opened.enter_context(checkout_of(source)) for source in sources]
        return _results(checkouts, judged=judged)


def _results(checkouts: Sequence[Checkout], *, judged: bool) -> list[Result]:
    folders = [each.root / "mods" for each in checkouts if (each.root / "mods").is_dir()]
    found: list[Result] = []
    cases: dict[Case, tuple[Result, str, Translated]] = {}
    for checkout in checkouts:
        result = Result(checkout)
        found.append(result)
        for entry in entries(checkout, folders):
            try:
                translated = entry.translated()
            except NotForUs as error:
                result.others[error.reason] += 1
            except PlanError as error:
                result.refused[entry.key] = error.problems
            else:
                recipe = result.taken[entry.key] = translated.recipe
                if recipe.judge not in releases.known():
                    result.unjudged.add(entry.key)
                    continue
                for sparks in recipe.sparks:
                    lean = _without_files(recipe)
                    case = Case(translated.document.path, lean, sparks, recipe.hardware[0])
                    cases[case] = (result, entry.key, translated)
    for case, told in (judge(cases) if judged else {}).items():
        result, key, translated = cases[case]
        problems = _refusals(told)
        if names := [match[1] for each in told if (match := _UNKNOWN.search(each))]:
            result.unknown[key] = names
        if problems:
            lines = [translated.placed(problem) for problem in problems]
            if case.recipe.vllm == UNKNOWN_VLLM:
                result.doubted[key] = lines
                continue
            result.taken.pop(key, None)
            result.wrong[key] = [*dict.fromkeys([*result.wrong.get(key, ()), *lines])]
    return found


def _refusals(told: Iterable[str]) -> list[str]:
    return [each for each in told if not _UNKNOWN.search(each) and _LACKS not in each]


def _without_files(recipe: Recipe) -> Recipe:
    """Return a recipe without the files that only its image has, and what only they can name."""
    left_out = {name for name in _FILES if str(recipe.args.get(name, "")).endswith(_ENDINGS)}
    left_out |= {named for name, named in _NAMED_BY.items() if name in left_out}
    args = {name: value for name, value in recipe.args.items() if name not in left_out}
    return recipe.model_copy(update={"args": args})


def report(result: Result) -> Iterator[str]:
    """Yield a line for each recipe that is for Sparks, with what is wrong below it."""
    checkout = result.checkout
    at = f" at {checkout.commit}" if checkout.commit else ""
    yield f"\n{checkout.url}{at}"
    for key, recipe in result.taken.items():
        how = "nobody has judged it" if key in result.unjudged else f"vLLM {recipe.judge} takes it"
        if recipe.vllm == UNKNOWN_VLLM and key not in result.unjudged:
            how += ", the newest: its image's is not known"
        if names := result.unknown.get(key):
            how += f"; it does not know, and passes over, {', '.join(names)}"
        if recipe.unjudged:
            how += f"; not judged: {', '.join(recipe.unjudged)}"
        if key in result.doubted:
            how = "only its image can judge it; the newest release refuses it"
        yield f"taken    {key}: {how}"
        yield from (f"         {_short(each, checkout)}" for each in result.doubted.get(key, ()))
    for word, problems in (("refused", result.refused), ("wrong", result.wrong)):
        for key, told in problems.items():
            yield f"{word:8} {key}"
            yield from (f"         {_short(problem, checkout)}" for problem in told)
    for reason, count in result.others.most_common():
        yield f"for others: {count} ({reason})"


def table(found: Sequence[Result]) -> Iterator[str]:
    """Yield a table in Markdown, and the share that is taken or refused with its line."""
    yield "| source | commit | for Sparks | taken | refused | by its vLLM | for others |"
    yield "|---|---|---|---|---|---|---|"
    for each in found:
        checkout = each.checkout
        yield (
            f"| {checkout.url.removeprefix('https://github.com/')} "
            f"| {(checkout.commit or '')[:7]} | {each.total} "
            f"| {len(each.taken)} | {len(each.refused)} | {len(each.wrong)} "
            f"| {sum(each.others.values())} |"
        )
    total = sum(each.total for each in found)
    told = [
        problem
        for each in found
        for problems in (*each.refused.values(), *each.wrong.values())
        for problem in problems
    ]
    placed_ones = [problem for problem in told if _has_line(problem)]
    taken = sum(len(each.taken) for each in found)
    yield ""
    yield (
        f"{total} recipes: {taken} taken, {total - taken} refused, with {len(placed_ones)} of "
        f"{len(told)} problems by file and line"
    )


def _has_line(problem: str) -> bool:
    return problem.partition(": ")[0].rpartition(":")[2].isdigit()


def _short(problem: str, checkout: Checkout) -> str:
    return problem.replace(f"{checkout.root}/", "")


def main(words: Sequence[str] | None = None) -> int:
    """Print what became of the recipes of sources. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.published",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", nargs="+")
    parser.add_argument("--quiet", action="store_true", help="print the table alone")
    parser.add_argument("--unjudged", action="store_true", help="do not ask vLLM")
    options = parser.parse_args(words)
    try:
        found = results(options.checkout, judged=not options.unjudged)
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    for result in found if not options.quiet else ():
        print("\n".join(report(result)))
    print("\n".join(["", *table(found)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
