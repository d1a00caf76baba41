"""Makes the JSON schemas of an owner's files from the models that read them.

A schema is as strict as JSON schema can be about a file alone. What it cannot say, such as that a
replica names a Spark of the same file, the commands find: it refuses nothing that they take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from sparkwright.common.hardware import HARDWARE
from sparkwright.common.schema import Model
from sparkwright.declared.fleet import fleet
from sparkwright.declared.fleet.fleet import InventoryFile
from sparkwright.declared.recipe import loader, values
from sparkwright.declared.recipe.loader import recipe_names
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.vllm_names import is_secret, options
from sparkwright.door import key
from sparkwright.door.key import KeysFile
from sparkwright.plan.release import lock
from sparkwright.plan.release.lock import Lock

FOLDER = Path(__file__).parents[2] / "docs/schemas"

Schema = dict[str, Any]

_SCALARS: list[Schema] = [
    {"type": ["boolean", "number"]},
    {"type": "string", "pattern": "^(?!-)[^\\u0000-\\u001f\\u007f]*$"},
]
# What the validators that are functions accept.
_ACCEPTED: Mapping[Callable[..., object], Schema] = {
    str.isprintable: {"pattern": "^[^\\u0000-\\u001f\\u007f]*$"},
    # An address has neither a scheme, a user, brackets nor a mask, and is no option.
    fleet._host_name: {"pattern": "^(?!-)[^\\s@/\\[\\]]+$"},
    values._option: {"pattern": f"^{values._OPTION.pattern}$"},
    values._folder: {"pattern": f"^{values._FOLDER.pattern}$"},
    values._is_argument: {
        "anyOf": [
            *_SCALARS,
            {"type": "array", "minItems": 1, "items": {"anyOf": _SCALARS}},
            {"type": "object"},
        ]
    },
    values._is_mod: {"type": "string", "pattern": f"^{values.MOD_NAME.pattern}$"},
    key._is_strong: {"minLength": key._SHORTEST, "pattern": f"^{key._KEY.pattern}$"},
    lock._day: {"pattern": f"^{key._DATE.pattern}$"},
    lock.inside: {"pattern": "^(?!/)(?!(.*/)?\\.\\.(/|$))[^\\u0000-\\u001f\\u007f]+$"},
}


class _Generator(GenerateJsonSchema):
    """Adds what the validators check that pydantic knows as functions only."""

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> Schema:
        made, function = super().function_after_schema(schema), schema["function"]["function"]
        if not isinstance(function, partial) or not function.args:
            return made | _ACCEPTED.get(function, {})
        test, rule = function.args
        pattern = getattr(test, "__self__", None)
        if isinstance(pattern, re.Pattern):
            made |= {"pattern": f"^({pattern.pattern})$"}
        made |= _ACCEPTED.get(test, {})
        # YAML's language server shows it in place of the pattern.
        return made | ({"patternErrorMessage": f"Expected {rule}"} if rule else {})


def _made(model: type[Model], title: str) -> Schema:
    made = model.model_json_schema(schema_generator=_Generator)
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_plain(made), "title": title}


def _plain(node: Any) -> Any:
    """Return a schema without titles and empty defaults, whose mappings are strict about names."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {
        name: value
        for name, value in node.items()
        if not (name == "title" and isinstance(value, str))
        and not (name == "default" and value in (None, [], {}))
    }
    made = {name: _plain(value) for name, value in kept.items()}
    if "patternProperties" in made:
        # A name that no pattern takes would be any name at all.
        ((pattern, value),) = made.pop("patternProperties").items()
        names = {**made.get("propertyNames", {}), "pattern": pattern}
        made |= {"propertyNames": names, "additionalProperties": value}
    if isinstance(node.get("properties"), dict):
        # There a title is a key.
        made["properties"] = {name: _plain(each) for name, each in node["properties"].items()}
    return made


def inventory() -> Schema:
    made = _made(InventoryFile, "An inventory of Sparkwright")
    kinds = made["$defs"]
    kinds["Spark"]["properties"]["hardware"]["enum"] = [*HARDWARE]
    counts = [{"minItems": count, "maxItems": count} for count in values.COUNTS]
    kinds["Replica"]["properties"]["sparks"]["anyOf"] = counts
    own = kinds["Replica"]["properties"]["recipe"]
    own |= {"anyOf": [{"enum": _offered()}, {"pattern": own.pop("pattern")}]}
    return made


def _offered() -> list[str]:
    return [name for name in recipe_names() if not name.startswith("lab")]


def recipe() -> Schema:
    """Return the schema of a recipe's file, which may begin with `extends`."""
    made = _made(Recipe, "A recipe of Sparkwright")
    own = made["properties"]
    # The file has the name.
    del own["name"]
    own["hardware"]["items"]["enum"] = [*HARDWARE]
    own["sparks"]["items"]["enum"] = [*values.COUNTS]
    own["extends"] = {
        "type": "string",
        "description": "the name of the recipe that this one is a variant of",
        "anyOf": [{"enum": _offered()}, {}],
    }
    required = [name for name in made.pop("required") if name != "name"]
    for name in ("args", "env", "checkpoints", "by_sparks"):
        # In a variant, null takes the key away.
        own[name]["additionalProperties"] = _or_null(own[name]["additionalProperties"])
    # What an editor offers; an option that is not here may be a newer one, or an older.
    argument = own["args"]["additionalProperties"]
    made["$defs"]["Argument"] = argument
    names = sorted(name for name in options(None) if not is_secret(name))
    named = {name: {"$ref": "#/$defs/Argument"} for name in names}
    refused = dict.fromkeys(values.OWN_ARGUMENTS, False)
    own["args"] |= {
        "properties": named | refused,
        "additionalProperties": {"$ref": "#/$defs/Argument"},
    }
    made["if"] = {"required": ["extends"]}
    made["then"] = {"required": [name for name in required if name in loader._OWN]}
    made["else"] = {"required": required}
    return made


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}


def keys() -> Schema:
    return _made(KeysFile, "The API keys of a fleet that Sparkwright deploys")


def locked() -> Schema:
    return _made(Lock, "A lock of Sparkwright")


SCHEMAS: Mapping[Path, Callable[[], Schema]] = {
    FOLDER / "inventory.json": inventory,
    FOLDER / "recipe.json": recipe,
    FOLDER / "keys.json": keys,
    FOLDER / "lock.json": locked,
}


def text(schema: Schema) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
