"""Makes published recipes files of a site: what a source has, and what it becomes here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from sparkwright.common import yaml
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import read_text, write_file
from sparkwright.declared.recipe.loader import OWN_RECIPES, load_recipe, recipe_names
from sparkwright.declared.recipe.mods import OWN_MODS, ModFolder, read_mods
from sparkwright.declared.recipe.published.document import NotForUs
from sparkwright.declared.recipe.published.sources import Checkout, checkout_of, entries, find
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.trust import needs

# Where sparkrun looks for mods that a registry lacks (spark-arena/sparkrun, core/mods.py).
_MODS_OF_ALL = "eugr"
_HEAD = "# Written by `sparkwright recipes import`, of the file that `source` names.\n"


def listing(source: str) -> Iterator[str]:
    """Yield a line for each recipe of a source that is for Sparks, and one for all others."""
    with ExitStack() as open_:
        checkout, mods = _opened(source, open_)
        yield str(checkout)
        others: Counter[str] = Counter()
        for entry in entries(checkout, [*mods]):
            try:
                recipe = entry.translated().recipe
            except NotForUs as error:
                others[error.reason] += 1
            except PlanError as error:
                first, *more = (_short(problem, checkout) for problem in error.problems)
                yield f"refused  {entry.key}: {first}{f' (and {len(more)} more)' if more else ''}"
            else:
                sparks = " or ".join(map(str, recipe.sparks))
                plural = "s" * (recipe.sparks != [1])
                yield f"taken    {entry.key} ({sparks} Spark{plural}, vLLM {recipe.judge})"
        if others:
            reasons = ", ".join(f"{count} {reason}" for reason, count in others.most_common())
            yield f"for others: {reasons}"


def import_recipe(source: str, name: str, *, replace: bool = False) -> list[str]:
    """Write a published recipe, and its mods, into the folder of the site; return what to say."""
    with ExitStack() as open_:
        checkout, others = _opened(source, open_)
        translated = find(checkout, name, [*others]).translated()
        name = translated.recipe.name
        data = {key: each for key, each in translated.data.items() if each and key != "name"}
        mods = translated.mods
        if mods:
            data["image"]["mods"] = [_mod_name(mod) for mod in mods]
        for folder in others:
            if names := [mod.name for mod in mods if mod.path.is_relative_to(folder)]:
                data["source"] += f" Mods {', '.join(names)}: {_MODS_OF_ALL} at {others[folder]}."
        text = _HEAD + yaml.dump(data)
        path = OWN_RECIPES / f"{name}.yaml"
        old = read_text(path, "a recipe, or no file", yaml.MOST_BYTES)
        if old is None and name in recipe_names():
            raise PlanError(
                f"{path}: found {name} among the recipes that come with Sparkwright; "
                "expected another name: a site's own recipe would take its place everywhere"
            )
        if old not in (None, text) and not replace:
            raise PlanError(
                f"{path}: found another content; expected no such file, or what this recipe "
                "becomes: --replace writes over it"
            )
        written = [*filter(None, map(_write_mod, mods))]
        if old != text:
            write_file(path, text)
            written.append(path)
        remarks = [_short(remark, checkout) for remark in translated.remarks]
        return [*_report(load_recipe(name), written, remarks)]


def _opened(source: str, open_: ExitStack) -> tuple[Checkout, dict[Path, str | None]]:
    """Return a source, and where mods are looked for that it lacks, with their commit.

    Without a network there are none: the recipes that need one say so.
    """
    checkout = open_.enter_context(checkout_of(source))
    if not (checkout.root / ".sparkrun").is_dir():
        return checkout, {}
    try:
        other = open_.enter_context(checkout_of(_MODS_OF_ALL))
    except PlanError:
        return checkout, {}
    return checkout, {other.root / "mods": other.commit}


def trusts(recipe: Recipe) -> list[str]:
    """Return the words that a replica's ``trusts`` has to have for a recipe."""
    return sorted(
        {need.name for count in recipe.sparks for need in needs(recipe.for_sparks(count))}
    )


def _mod_name(mod: ModFolder) -> str:
    return f"{mod.name[:50]}-{mod.digest[:12]}"


def _write_mod(mod: ModFolder) -> Path | None:
    """Write a mod's files; return its folder, or None where all of it was there."""
    folder = OWN_MODS / _mod_name(mod)
    if folder.exists() and read_mods([folder])[0].digest == mod.digest:
        return None
    if folder.exists():
        raise PlanError(f"{folder}: found other files than the mod's; expected no such folder")
    for path, file in mod.files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
        place.chmod(0o755 if file.executable else 0o644)
    return folder


def _short(problem: str, checkout: Checkout) -> str:
    return problem.removeprefix(f"{checkout.root}/")


def _report(recipe: Recipe, written: Sequence[Path], remarks: Sequence[str]) -> Iterator[str]:
    yield from (f"{path}: written" for path in written)
    if not written:
        yield f"{OWN_RECIPES / recipe.name}.yaml: is there already"
    sparks = " or ".join(map(str, recipe.sparks))
    judged = f", judged by {recipe.judged_by}" if recipe.judged_by else ""
    yield f"{recipe.name}: {recipe.description}"
    yield f"  Sparks: {sparks}; image: {recipe.base_image}; vLLM: {recipe.vllm}{judged}"
    if words := trusts(recipe):
        yield f"  its replica needs: trusts: [{', '.join(words)}]"
        for need in needs(recipe.for_sparks(recipe.sparks[0])):
            yield f"    {need.name}: {need.danger}"
            yield from (f"      {line}" for line in need.details)
    yield from (f"  know: {remark}" for remark in remarks)
    yield f"  judged by vLLM {recipe.judge}: the names of options. Only the image judges values"
    yield f"  read it, and what it would run: {next_line('recipes command', recipe.name)}"
