"""Makes the reference pages from the code: settings, keys of files, commands and causes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from pathlib import Path

import click
from pydantic.fields import FieldInfo

from host.common import probe
from sparkwright.cli.main import cli
from sparkwright.common.paths import FILES
from sparkwright.common.schema import Model
from sparkwright.declared.fleet.fleet import FleetSource, Gateway, Reached, Replica, Spark
from sparkwright.declared.fleet.settings import Settings
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.recipe import BySparks, Checkpoint, Recipe
from sparkwright.declared.recipe.values import ImageBuild, ImageMods
from sparkwright.plan.causes.log_causes import KnownCause, table
from tests.docs import runs
from tests.group_data import declared

DOCS = Path(__file__).parents[2] / "docs"
_BEGIN, _END = "<!-- made by python -m tests.docs -->\n", "<!-- end -->\n"


def _joined(lines: Callable[[], Iterator[str]]) -> Callable[[], str]:
    return wraps(lines)(lambda: "\n".join(lines()))


def filled(page: str, made: str) -> str:
    """Return a page with new content between its two markers."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin, f"found no {_BEGIN!r}"
    assert end, f"found no {_END!r}"
    return f"{before}{begin}\n{made.strip()}\n\n{end}{after}"


@_joined
def settings() -> Iterator[str]:
    """Return a section for each setting: its default, its values and the reason."""
    last = ""
    for name, _, reason in declared():
        yield f"## `{name}`\n"
        expected = _words(Settings.model_fields[name])
        if "such as" in reason:
            expected = re.sub(", such as .*?(?=, or None$|$)", "", expected)
        yield f"Default: `{_default(name)}`. Expected: {expected}.\n"
        if reason:
            yield re.sub(r"docs/([a-z-]+\.md)", r"[\1](\1)", reason) + "\n"
            last = name
        else:
            yield f"See [`{last}`](#{last}).\n"


def _default(name: str) -> str:
    default = Settings.model_fields[name].default
    return repr(default.model_dump() if isinstance(default, Model) else default)


def _words(field: FieldInfo) -> str:
    return field.description or "see above"


def recipe_keys() -> str:
    """Return a table for a recipe, and for each mapping in it."""
    return _tables(
        {
            "A recipe": Recipe,
            "`checkpoints.NAME`": Checkpoint,
            "`image`, if the Spark builds it": ImageBuild,
            "`image`, if mods change it": ImageMods,
            "`by_sparks.COUNT`": BySparks,
        },
        left_out=["name"],
    )


def inventory_keys() -> str:
    """Return a table for each kind of entry in an inventory."""
    entries = {"`sparks.NAME`": Spark, "`replicas.NAME`": Replica, "`source`": FleetSource}
    gateway = _tables({"`gateway`": Gateway}, left_out=Reached.model_fields)
    return f"{_tables(entries, left_out=[])}\n\n{gateway}"


def _tables(models: Mapping[str, type[Model]], left_out: Iterable[str]) -> str:
    return "\n\n".join(
        "\n".join(
            [
                f"## {title}\n",
                "| key | expected | default |",
                "|---|---|---|",
                *(
                    f"| `{key}` | {_cell(_words(field))} | {_key_default(field)} |"
                    for key, field in sorted(
                        model.model_fields.items(), key=lambda item: not item[1].is_required()
                    )
                    if key not in left_out
                ),
            ]
        )
        for title, model in models.items()
    )


def _key_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory or field.default in (None, ""):
        return ""
    default = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"`{default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# What most remedies of a part end with.
_PAIR, _LINK = "Between two Sparks", " `sparkwright apply` says what is wrong with the link."
_CAUSES: Mapping[str, tuple[str, Iterable[KnownCause]]] = {
    "Image, command line, model files, port, disk": ("a line of the engine's log", table("start")),
    "Memory": ("a line of the engine's log", table("memory")),
    "GPU kernels": ("a line of the engine's log", table("compute")),
    _PAIR: ("a line of the engine's log", table("network")),
    "Kernel, driver, PCIe, container runtime": ("a line of a log", table("platform")),
    "The Spark itself": (
        "a reading of the Spark",
        [*table("root"), *table("host"), *table("probes")],
    ),
    "Speed": ("`sparkwright benchmark`", table("speed")),
}


@_joined
def causes() -> Iterator[str]:
    """Return a table for each kind of causes: what is wrong, and the remedy."""
    named: set[str] = set()
    told: dict[str, str] = {}
    for title, (evidence, known) in _CAUSES.items():
        ends = _LINK if title == _PAIR else ""
        yield f"## {title}\n\nShown by {evidence}.{ends}\n"
        yield "| what is wrong | remedy |\n|---|---|"
        for cause in known:
            # A log and a reading may show the same one.
            if cause.name not in named:
                named.add(cause.name)
                remedy = f"{cause.remedy}.".removesuffix(ends)
                first = told.setdefault(remedy, cause.name)
                if first != cause.name:
                    remedy = f"As for `{first}`."
                # A column of names would leave too little room for the texts.
                row = (f"`{cause.name}`<br>{cause.cause}.", remedy)
                yield f"| {' | '.join(map(_cell, row))} |"
        yield ""


def commands() -> str:
    """Return the help of `sparkwright` and of each of its commands."""
    return helps(cli, "sparkwright")


# Options that docs/commands.md explains once, above its sections.
_SHARED = ("--help", "--yes", "--limit", "--exclude", "--data", "--verbose")
# What it says once there, or below: a verb's deploy, `--limit`, other examples, exit statuses.
_SAID = re.compile(
    r"\n\n  (?:Runs: pyinfra inventory\.py deploys/.*"
    r"|Example: sparkwright \w+ (?:--limit [\w-]+|-y)|Examples:\n(?s:.*))(?=\n|$)"
)


def helps(command: click.Command, name: str, parent: click.Context | None = None) -> str:
    """Return the sections of a command and all below it: `--help` without what is shared."""
    command = copy.copy(command)
    command.add_help_option = parent is None
    command.params = [
        each for each in command.params if not set(_SHARED).intersection(each.opts) or not parent
    ]
    settings = command.context_settings | {"terminal_width": 80, "max_content_width": 80}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    text = _SAID.sub("", context.get_help())
    if parent:
        # Each command of a group has its own section, whose title is all that it is called by where
        # it takes options alone.
        text = text.partition("\n\nCommands:\n")[0]
        text = text.removeprefix(f"Usage: {context.command_path} [OPTIONS]\n\n")
    sections = [f"## `{context.command_path}`\n\n```text\n{text}\n```"]
    if parent and not parent.parent and f" {text.strip()}\n" in parent.get_help():
        # The list of all commands has said it.
        sections = []
    if isinstance(command, click.Group):
        below = (
            (each, command.get_command(context, each)) for each in command.list_commands(context)
        )
        sections += [helps(each, key, context) for key, each in below if each and not each.hidden]
    return "\n\n".join(sections)


def hangs() -> str:
    """Return a table of the seconds within which a hang is found, with the recipes."""
    found: dict[tuple[float, float], list[str]] = {}
    for recipe in map(load_recipe, recipe_names()):
        if recipe.hardware != ["lab"]:
            looks = probe.patience(max(map(_longest_step(recipe), recipe.sparks)))
            times = probe.found_within(looks), probe.found_within(2 * looks)
            found.setdefault(times, []).append(f"`{recipe.name}`")
    lines = [
        f"| {usual:g} s | {most:g} s | {', '.join(names)} |"
        for (usual, most), names in sorted(found.items())
    ]
    head = "| a hang is found within | after slow steps | recipes |", "|---|---|---|"
    return "\n".join([*head, *lines])


def _longest_step(recipe: Recipe) -> Callable[[int], float]:
    return lambda sparks: recipe.for_sparks(sparks).longest_step


def agents() -> str:
    """Return what a new site says to programs, for one that has it as a skill."""
    text = (FILES / "site/AGENTS.md.j2").read_text()
    return text.replace("](README.md)", "](../../how-it-works.md)")


PAGES: Mapping[Path, Callable[[], str]] = {
    DOCS.parent / "README.md": runs.first_screen,
    DOCS / "tutorial-one.md": runs.plan,
    DOCS / "skills/sparkwright/SKILL.md": agents,
    DOCS / "settings.md": settings,
    DOCS / "inventory.md": inventory_keys,
    DOCS / "recipe-keys.md": recipe_keys,
    DOCS / "commands.md": commands,
    DOCS / "causes.md": causes,
    DOCS / "how-it-works.md": hangs,
}
