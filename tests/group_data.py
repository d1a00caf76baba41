"""Writes group_data/all.py from the model of the settings: python -m tests.group_data."""

import argparse
import ast
import inspect
import textwrap
from collections.abc import Iterator
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


def _lines() -> Iterator[str]:
    source = inspect.getsource(Settings)
    (model,) = ast.parse(source).body
    assert isinstance(model, ast.ClassDef)
    for number, each in enumerate(model.body):
        if not isinstance(each, ast.AnnAssign):
            continue
        assert isinstance(each.target, ast.Name)
        assert each.value
        after = model.body[number + 1]
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            yield "\n"
            yield from (f"# {line}\n" for line in _wrapped(str(after.value.value)))
        value = ast.get_source_segment(source, each.value, padded=True) or ""
        default = Settings.model_fields[each.target.id].default
        if isinstance(default, Model):
            value = f"{{\n{_items(default)}}}"
        elif "\n" in value:
            value = f"(\n{textwrap.indent(textwrap.dedent(value).strip(), '    ')}\n)"
        yield f"{each.target.id} = {value.strip()}\n"


def _wrapped(reason: str) -> list[str]:
    words = " ".join(reason.split())
    return textwrap.wrap(words, 97, break_long_words=False, break_on_hyphens=False)


def _items(model: Model) -> str:
    return "".join(f'    "{key}": "{value}",\n' for key, value in model.model_dump().items())


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m tests.group_data", description=__doc__).parse_args()
    FILE.write_text(text())
