"""The trust that a recipe needs: options and variables that reach beyond serving a model.

A stranger's recipe is only data as long as its options cannot run code, open ports or pass on what
clients ask. Only the inventory can allow those that can (`trusts` of a replica), never the recipe.
A name that no vLLM in `vllm_names.yaml` has needs trust as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.common import yaml
from sparkwright.declared.recipe.mods import read_mods
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.values import LOG_LEVEL, OWN_ENVIRONMENT, ImageMods
from sparkwright.declared.recipe.vllm_names import UNKNOWN, normal, options, table


@dataclass(frozen=True)
class Need:
    """What a recipe sets at a key, and only `trusts` of an inventory can allow by this name.

    ``danger`` is what it lets the recipe do, and ``details`` are lines for whoever is to allow it.
    """

    name: str
    key: str
    danger: str
    details: tuple[str, ...] = ()


# Names that need no trust: see trust.yaml.
_NAMES: Mapping[str, Any] = yaml.load(Path(__file__).with_name("trust.yaml"))
_TUNING, _COMPILATION = (frozenset(_NAMES[kind].split()) for kind in ("tuning", "compilation"))

_MOD = "runs a script as root in a build on the Spark, which may change all that the image holds"

# A file of the engine's own folder, where mods put what these name. Who allows a mod lets it
# change all of vLLM's code: its template or parser adds nothing to that.
OF_MODS = ("chat-template", "tool-parser-plugin", "reasoning-parser-plugin")
_OWN_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(jinja|py)")

_CHECKPOINT_FILE = re.compile(r"\$\{[^}]+\}(/[A-Za-z0-9_-][\w.-]*)+", re.ASCII)


def _keys(value: object) -> dict[str, object]:
    """Keys as vLLM reads them, with either sign between words; none if two of them are the same."""
    mapping = value if isinstance(value, dict) else {}
    keys = {str(key).replace("_", "-"): item for key, item in mapping.items()}
    return keys if len(keys) == len(mapping) else {}


def _compilation(value: object) -> bool:
    keys = _keys(value)
    if not keys:
        return isinstance(value, int) or str(value).isdecimal()
    return keys.keys() <= _COMPILATION and keys.get("backend", "") in ("", "eager", "inductor")


def _method(value: object) -> bool:
    return isinstance(value, str) and value != "custom_class" and "." not in value


def _draft(value: object) -> bool:
    """Tell whether it is no dotted path of a Python class, which vLLM would import."""
    return str(value) in ("ngram", "[ngram]") or "/" in str(value) or str(value).startswith("${")


def _speculation(value: object) -> bool:
    keys = _keys(value)
    if "draft-load-config" in keys:
        return False
    return _method(keys["method"]) if "method" in keys else _draft(keys.get("model"))


def _template(value: object) -> bool:
    """Tell whether it is a file of a checkpoint, or the template itself, which runs sandboxed."""
    return "{{" in str(value) or _CHECKPOINT_FILE.fullmatch(str(value)) is not None


def _level(value: object) -> bool:
    """Tell whether it is no level by which vLLM logs whole requests."""
    return str(value).lower() in ("info", "warning", "error", "critical")


# Names of the table that need trust only with some values: the tests for the values that do not.
_PLAIN: Mapping[str, Callable[[object], bool]] = {
    **{name: plain.__contains__ for name, plain in _NAMES["values"].items()},
    "chat-template": _template,
    "compilation-config": _compilation,
    "speculative-config": _speculation,
    "spec-method": _method,
    "spec-model": _draft,
    **dict.fromkeys((LOG_LEVEL, "log-level", "uvicorn-log-level"), _level),
}


def needs(recipe: Recipe) -> Iterator[Need]:
    """Yield the settings of a recipe that only an inventory can allow."""
    mods = read_mods(recipe.image.mods) if isinstance(recipe.image, ImageMods) else []
    for mod in mods:
        yield Need(mod.word, f"image.mods: {mod.name}", _MOD, tuple(mod.description()))
    existing = options(recipe.release)
    for name, value in recipe.args.items():
        parsed = _parsed(value)
        if mods and name in OF_MODS and _OWN_FILE.fullmatch(str(value)):
            continue
        if name not in existing:
            yield Need(name, f"args.{name}", UNKNOWN)
        elif danger := _danger(name, parsed):
            yield Need(name, f"args.{name}", danger)
        else:
            for key, danger in _inside(parsed):
                yield Need(name, f"args.{name}.{key}", danger)
    for name, text in recipe.env.items():
        if name in OWN_ENVIRONMENT or name in _TUNING:
            continue
        if danger := _danger(name, text) if name in table() else UNKNOWN:
            yield Need(name, f"env.{name}", danger)


def _danger(name: str, value: object) -> str | None:
    """Return what a name with this value lets a recipe do; None if it needs no trust."""
    known = table().get(name)
    # What is off does nothing, but for what turns something off.
    off = value is False and not name.startswith("disable-")
    if known is None or off or (name in _PLAIN and _PLAIN[name](value)):
        return None
    return known.danger


def _parsed(value: object) -> object:
    """Parse text that holds JSON, as vLLM does."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _inside(value: object) -> Iterator[tuple[str, str]]:
    """Yield the keys inside a value that are options which need trust, with what they allow."""
    if isinstance(value, dict):
        for key, item in value.items():
            if danger := _danger(normal(str(key)), item):
                yield str(key), danger
            for deeper, danger in _inside(item):
                yield f"{key}.{deeper}", danger
    elif isinstance(value, list):
        for item in value:
            yield from _inside(item)
