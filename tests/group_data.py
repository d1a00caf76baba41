"""Writes group_data/all.py from the model of the settings: python -m tests.group_data."""

import argparse
import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from sparkwright.common.schema import Model
from sparkwright.declared.fleet.settings import Settings

FILE = Path(__file__).parents[1] / "group_data" / "all.py"
_HEAD = '''\
"""What a site may change. A file `group_data/sparks.py` of your own overrides single values.

Made by `python -m tests.group_data`; the settings are in sparkwright/declared/fleet/settings.py.
"""

_sudo = True
'''


def text() -> str:
    """Return what group_data/all.py is to say."""
    return _HEAD + "".join(_lines())


def declared() -> Iterator[tuple[str, str, str]]:
    """Yield each setting, its default as the model has it, and its reason; "" is the last one's."""
    source = inspect.getsource(Settings)
    (model,) = ast.parse(source).body
    assert isinstance(model, ast.ClassDef)
    for each, after in pairwise(model.body):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value:
            reason = after.value if isinstance(after, ast.Expr) else None
            text = str(reason.value) if isinstance(reason, ast.Constant) else ""
            value = ast.get_source_segment(source, each.value, padded=True) or ""
            yield each.target.id, value, " ".join(text.split())


def _lines() -> Iterator[str]:
    for name, value, reason in declared():
        if reason:
            yield "\n"
            lines = textwrap.wrap(reason, 97, break_long_words=False, break_on_hyphens=False)
            yield from (f"# {line}\n" for line in lines)
        default = Settings.model_fields[name].default
        if isinstance(default, Model):
            value = f"{{\n{_items(default)}}}"
        elif "\n" in value:
            value = f"(\n{textwrap.indent(textwrap.dedent(value).strip(), '    ')}\n)"
        yield f"{name} = {value.strip()}\n"


def _items(model: Model) -> str:
    return "".join(f'    "{key}": "{value}",\n' for key, value in model.model_dump().items())


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m tests.group_data", description=__doc__).parse_args()
    FILE.write_text(text())
