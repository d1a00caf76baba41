"""Copies of recipes with one mistake each, of every kind that the judge is there to find.

What sparkwright/declared/recipe/options.py and check.py refuse, no judge sees.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sparkwright.declared.recipe.loader import RECIPES

BASE = "qwen3.5-122b-nvfp4-mtp"  # two Sparks as well, a model with MTP, on vLLM 0.28.0


@dataclass(frozen=True)
class Mistake:
    """One wrong setting.

    Attributes:
        key: whose setting is wrong, as a message names it.
        value: as a message shows it.
        expected: what the message says beside it.
        args, env: what the copy says, beside what the recipe does.
    """

    key: str
    value: str
    expected: str
    args: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


_FILE = Path(__file__).with_name("broken.yaml")
BROKEN = {name: Mistake(**values) for name, values in yaml.safe_load(_FILE.read_text()).items()}


def write(name: str, folder: Path) -> Path:
    """Write a broken copy into a folder and return its file."""
    mistake = BROKEN[name]
    data = yaml.safe_load((RECIPES / f"{BASE}.yaml").read_text())
    data["args"] |= mistake.args
    data["env"] |= mistake.env
    for difference in data.get("by_sparks", {}).values():
        # What one number of Sparks sets by itself would hide the mistake.
        for kind, wrong in (("args", mistake.args), ("env", mistake.env)):
            for key in wrong:
                difference.get(kind, {}).pop(key, None)
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file
