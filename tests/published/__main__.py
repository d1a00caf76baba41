"""Says of published recipes which are taken, and whether the vLLM of their image takes them.

    python -m tests.published CHECKOUT …

CHECKOUT is a folder, or another source as `sparkwright recipes import` names it. Mods that one
lacks are looked for in the others. At the end stands a table, as in docs/recipes.md. Judging needs
root and x86_64; the first time it downloads.
"""

from __future__ import annotations

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
from tests.recipes import parser
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
        told: By recipe: "taken", "refused" by us, or "wrong" by its vLLM; how it is taken; and
            problems, each with file and line.
        others: Recipes for others, by the reason.
    """

    checkout: Checkout
    told: dict[str, tuple[str, str, Sequence[str]]] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)

    def count(self, word: str) -> int:
        """Return the number of recipes of which a word is told."""
        return sum(each == word for each, _, _ in self.told.values())


def results(sources: Sequence[str]) -> list[Result]:
    """Read the recipes of sources, and let their vLLM judge them, all together.

    Raises:
        PlanError: There is no such source.
        LabError: A release cannot be had.
    """
    with ExitStack() as opened:
        checkouts = [opened.enter_context(checkout_of(source)) for source in sources]
        folders = [each.root / "mods" for each in checkouts if (each.root / "mods").is_dir()]
        found = [Result(checkout) for checkout in checkouts]
        cases: dict[Case, tuple[Result, str, Translated]] = {}
        for result in found:
            for entry in entries(result.checkout, folders):
                try:
                    translated = entry.translated()
                except NotForUs as error:
                    result.others[error.reason] += 1
                except PlanError as error:
                    result.told[entry.key] = ("refused", "", error.problems)
                else:
                    recipe = translated.recipe
                    result.told[entry.key] = ("taken", _how(recipe, []), ())
                    for sparks in recipe.sparks:
                        lean = _without_files(recipe)
                        case = Case(translated.document.path, lean, sparks, recipe.hardware[0])
                        cases[case] = (result, entry.key, translated)
        for case, told in judge(cases).items():
            result, key, translated = cases[case]
            recipe, (_, how, before) = translated.recipe, result.told[key]
            if names := [match[1] for each in told if (match := _UNKNOWN.search(each))]:
                how = _how(recipe, names)
            lines = [*before, *map(translated.placed, _refusals(told))]
            word = "wrong" if lines and recipe.vllm != UNKNOWN_VLLM else "taken"
            how = "only its image can judge it; the newest release refuses it" if lines else how
            result.told[key] = (word, how, [*dict.fromkeys(lines)])
    return found


def _how(recipe: Recipe, unknown: Sequence[str]) -> str:
    how = f"vLLM {recipe.judge} takes it"
    if recipe.vllm == UNKNOWN_VLLM:
        how += ", the newest: its image's is not known"
    if unknown:
        how += f"; it does not know, and passes over, {', '.join(unknown)}"
    return how + (f"; not judged: {', '.join(recipe.unjudged)}" if recipe.unjudged else "")


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
    yield f"\n{result.checkout}"
    for key, (word, how, problems) in result.told.items():
        yield f"{word:8} {key}{f': {how}' if word == 'taken' else ''}"
        yield from (f"         {each.replace(f'{result.checkout.root}/', '')}" for each in problems)
    for reason, count in result.others.most_common():
        yield f"for others: {count} ({reason})"


def table(found: Sequence[Result]) -> Iterator[str]:
    """Yield a table in Markdown, and the share that is taken or refused with its line."""
    yield "| source | commit | for Sparks | taken | refused | by its vLLM | for others |"
    yield "|---|---|---|---|---|---|---|"
    for each in found:
        yield (
            f"| {each.checkout.url.removeprefix('https://github.com/')} "
            f"| {(each.checkout.commit or '')[:7]} | {len(each.told)} "
            f"| {each.count('taken')} | {each.count('refused')} | {each.count('wrong')} "
            f"| {each.others.total()} |"
        )
    total, taken = sum(len(each.told) for each in found), sum(each.count("taken") for each in found)
    refused = [told for each in found for told in each.told.values() if told[0] != "taken"]
    problems = [problem for _, _, lines in refused for problem in lines]
    placed = [each for each in problems if re.match(r"[^:]+:\d+: ", each)]
    yield ""
    yield (
        f"{total} recipes: {taken} taken, {total - taken} refused, with {len(placed)} of "
        f"{len(problems)} problems by file and line"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Print what became of the recipes of sources. Returns the exit status."""
    command = parser("tests.published", __doc__)
    command.add_argument("checkout", nargs="+")
    try:
        found = results(command.parse_args(words).checkout)
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    for result in found:
        print("\n".join(report(result)))
    print("\n".join(["", *table(found)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
