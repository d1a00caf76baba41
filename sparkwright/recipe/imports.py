"""Makes published recipes files of a site: what a source has, and what it becomes here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.common import yaml
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.recipe import rules
from sparkwright.recipe.loader import (
    OWN_RECIPES,
    load_published,
    load_recipe,
    placed,
    recipe_names,
)
from sparkwright.recipe.mods import OWN_MODS, ModFolder, read_mods
from sparkwright.recipe.published import formats
from sparkwright.recipe.published.draft import NotForUs, Translated
from sparkwright.recipe.published.sources import (
    MODS_OF_ALL,
    Checkout,
    Published,
    checkout_of,
    entries,
    find,
)
from sparkwright.recipe.recipe import UNKNOWN_VLLM, Recipe
from sparkwright.recipe.trust import needs

# Digits of a mod's hash that its folder's name has here.
_DIGITS = 12
_LONG = ("args", "env")
_HEAD = "# Written by `sparkwright recipes import`, of the file that `source` names.\n"


@dataclass(frozen=True)
class Imported:
    """A recipe that became a file of the site.

    Attributes:
        files: Those that were written, with the folders of mods.
        same: Tells that all of it was there already.
        remarks: What whoever takes it should know, as ``FILE:LINE: …``.
    """

    recipe: Recipe
    files: Sequence[Path]
    same: bool
    remarks: Sequence[str] = ()


def listing(source: str) -> Iterator[str]:
    """Yield a line for each recipe of a source that is for Sparks, and one for all others.

    Raises:
        PlanError: There is no such source, or it cannot be fetched.
    """
    checkout = checkout_of(source)
    where = f" at {checkout.commit} of {checkout.day}" if checkout.commit else ""
    yield f"{checkout.url}{where}"
    others: Counter[str] = Counter()
    for entry in entries(checkout, _mods(checkout)):
        try:
            recipe = load_published(entry.path, entry.part, entry.origin)
        except NotForUs as error:
            others[error.reason] += 1
        except PlanError as error:
            place, *more = (_short(problem, checkout) for problem in error.problems)
            yield f"refused  {entry.key}: {place}{f' (and {len(more)} more)' if more else ''}"
        else:
            sparks = f"{' or '.join(map(str, recipe.sparks))} Spark{'s' * (recipe.sparks != [1])}"
            judge = f"near vLLM {recipe.judge}" if recipe.judged_by else f"vLLM {recipe.vllm}"
            yield f"taken    {entry.key} ({sparks}, {judge})"
    if others:
        reasons = ", ".join(f"{count} {reason}" for reason, count in others.most_common())
        yield f"for others: {reasons}"


def import_recipe(source: str, name: str, *, replace: bool = False) -> Imported:
    """Write a published recipe, and its mods, into the folder of the site.

    Raises:
        PlanError: There is no such recipe, or it cannot be taken; or the site has another one.
    """
    checkout = checkout_of(source)
    others = _mods(checkout)
    entry = find(checkout, name, others)
    loaded = load_published(entry.path, entry.part, entry.origin)
    translated = formats.translate(entry.path, entry.part, entry.origin)
    data = translated.data
    del data["name"]
    mods = read_mods(data["image"]["mods"]) if isinstance(data["image"], dict) else []
    if mods:
        data["image"]["mods"] = [_mod_name(mod) for mod in mods]
        data["source"] += "".join(_origins(mods, checkout, others))
    text = _HEAD + _text(data)
    path = OWN_RECIPES / f"{loaded.name}.yaml"
    old = _content(path)
    if old is None and loaded.name in recipe_names():
        raise PlanError(
            f"{path}: found {loaded.name} among the recipes that come with Sparkwright; expected "
            "another name: a site's own recipe would take its place everywhere"
        )
    if old not in (None, text) and not replace:
        raise PlanError(
            f"{path}: found another content; expected no such file, or what this recipe becomes: "
            "--replace writes over it"
        )
    written = [folder for mod in mods if (folder := _write_mod(mod))]
    if old != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    remarks = [*translated.remarks, *_by_the_nearest(loaded, entry, translated)]
    remarks = [_short(remark, checkout) for remark in remarks]
    return Imported(load_recipe(loaded.name), written or [path], not written, remarks)


def _by_the_nearest(recipe: Recipe, entry: Published, translated: Translated) -> Iterator[str]:
    """Yield what is known not to work with the nearest release, where the image's is not known."""
    if recipe.vllm != UNKNOWN_VLLM or recipe.judged_by is None:
        return
    as_nearest = recipe.model_copy(update={"vllm": recipe.judged_by})
    for problem in rules.problems(as_nearest):
        told = placed(f"{entry.path}: {problem}", entry.path, translated)
        yield f"{told}. That is of vLLM {recipe.judged_by}, the nearest; the image's is not known"


def trusts(recipe: Recipe) -> list[str]:
    """Return the words that a replica's ``trusts`` has to have for a recipe."""
    return sorted(
        {need.name for count in recipe.sparks for need in needs(recipe.for_sparks(count))}
    )


def _mods(checkout: Checkout) -> list[Path]:
    """Return where mods are looked for that a source lacks: sparkrun takes spark-vllm-docker's.

    Without a network there are none: the recipes that need one say so.
    """
    if not (checkout.root / ".sparkrun").is_dir():
        return []
    try:
        return [checkout_of(MODS_OF_ALL).root / "mods"]
    except PlanError:
        return []


def _origins(
    mods: Sequence[ModFolder], checkout: Checkout, others: Sequence[Path]
) -> Iterator[str]:
    for folder in others:
        names = [mod.name for mod in mods if mod.path.is_relative_to(folder)]
        if names and not folder.is_relative_to(checkout.root):
            commit = folder.parent.parent.name
            yield f" Mods {', '.join(names)}: {MODS_OF_ALL} at {commit}."


def _mod_name(mod: ModFolder) -> str:
    return f"{mod.name[:50]}-{mod.digest[:_DIGITS]}"


def _write_mod(mod: ModFolder) -> Path | None:
    """Write a mod's files; return its folder, or None where all of it was there."""
    folder = OWN_MODS / _mod_name(mod)
    if folder.exists():
        (there,) = read_mods([folder])
        if there.digest != mod.digest:
            raise PlanError(
                f"{folder}: found other files than the mod's; expected no such folder, or its own"
            )
        return None
    for path, file in mod.files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
        place.chmod(0o755 if file.executable else 0o644)
    return folder


def _content(path: Path) -> str | None:
    try:
        return content_of(path).decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise PlanError(f"{path}: cannot be read; expected a recipe, or no such file") from None


def _text(data: dict[str, Any]) -> str:
    checkpoints = {
        name: {key: value for key, value in checkpoint.items() if value is not None}
        for name, checkpoint in data["checkpoints"].items()
    }
    content = {key: value for key, value in {**data, "checkpoints": checkpoints}.items() if value}
    # One line for each option and variable; the rest as short as our own recipes have it.
    return "".join(
        yaml.dump(
            {key: value},
            default_flow_style=None
            if isinstance(value, dict | list) and key not in _LONG
            else False,
        )
        for key, value in content.items()
    )


def _short(problem: str, checkout: Checkout) -> str:
    return re.sub(rf"^{re.escape(str(checkout.root))}/", "", problem)


def show(entry: Imported) -> Iterator[str]:
    """Yield what a person is told of a recipe that became the site's."""
    recipe = entry.recipe
    verb = "is there already" if entry.same else "written"
    yield from (f"{path}: {verb}" for path in entry.files)
    sparks = " or ".join(map(str, recipe.sparks))
    yield f"{recipe.name}: {recipe.description}"
    yield f"  Sparks: {sparks}; image: {recipe.base_image}; vLLM: {recipe.vllm}" + (
        f", judged by {recipe.judged_by}" if recipe.judged_by else ""
    )
    words = trusts(recipe)
    if words:
        yield f"  its replica needs: trusts: [{', '.join(words)}]"
        for need in needs(recipe.for_sparks(recipe.sparks[0])):
            yield f"    {need.name}: {need.danger}"
            yield from (f"      {line}" for line in need.details)
    yield from (f"  know: {remark}" for remark in entry.remarks)
    if recipe.judge != UNKNOWN_VLLM:
        yield f"  judged by vLLM {recipe.judge}: the names of options. Only the image judges values"
    yield f"  read it, and what it would run: {next_line('recipes command', recipe.name)}"
