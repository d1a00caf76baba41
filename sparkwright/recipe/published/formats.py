"""The formats in which others publish recipes: what a file holds, by its content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.recipe.published import nvidia, playbook, sparkrun, vllm_project
from sparkwright.recipe.published.document import Document
from sparkwright.recipe.published.draft import Origin, Translated

# The variant of a recipe with variants that is meant where none is named.
DEFAULT = "default"


def is_published(data: Mapping[str, Any]) -> bool:
    """Tell whether the content of a YAML file is a recipe of another project."""
    return (
        nvidia.is_nvidia(data) or vllm_project.is_vllm_project(data) or sparkrun.is_sparkrun(data)
    )


def parts(path: Path) -> list[str]:
    """Return the names of the recipes in a file: one without a name, or several with names.

    An empty list: it holds no recipe.

    Raises:
        PlanError: It cannot be read.
    """
    if playbook.is_playbook(path):
        return [each.name for each in playbook.found(path)]
    data = yaml.load(path, [])
    if vllm_project.is_vllm_project(data):
        return vllm_project.parts(data)
    return [""] if is_published(data) else []


def translate(path: Path, part: str, origin: Origin) -> Translated:
    """Translate one of the `parts` of a file into a recipe of ours; "": the only one, or default.

    Raises:
        NotForUs: It is for another engine or other hardware.
        PlanError: All that cannot be translated.
    """
    if playbook.is_playbook(path):
        names = parts(path)
        if not part and len(names) != 1:
            known = ", ".join(names) or "none"
            raise PlanError(f"{path}: found {len(names)} commands; expected one by name: {known}")
        return playbook.translate(path, origin, part or names[0])
    document = Document(path)
    if vllm_project.is_vllm_project(document.data):
        return vllm_project.translate(document, origin, part or DEFAULT)
    if nvidia.is_nvidia(document.data):
        return nvidia.translate(document, origin)
    return sparkrun.translate(document, origin)
