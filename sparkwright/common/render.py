"""Templates filled with values: units and settings of files/, and scripts for a host."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sparkwright.common.files import ManagedFile
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import SYSTEMD

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(HOST_FILES),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_compiled = cache(_ENVIRONMENT.from_string)


def render(template: Path | str, /, **values: object) -> str:
    """Return the text of a jinja2 template, unescaped: values of a shell script come quoted.

    Raises:
        jinja2.UndefinedError: a name of the template has no value.
    """
    text = template.read_text("utf-8") if isinstance(template, Path) else template
    return _compiled(text).render(values)


def unit_file(template: Path, **values: object) -> ManagedFile:
    """Return a unit of systemd's as a file of a Spark, of the same name as its template."""
    return ManagedFile(f"{SYSTEMD}/{template.name}", render(template, **values))
