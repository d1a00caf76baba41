"""The folder of what travels to a Spark: recipes, templates, and the programs that run there."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
# Beside the package in a checkout; within it, once it is installed.
FILES = _PACKAGE / "files" if (_PACKAGE / "files").is_dir() else _PACKAGE.parent / "files"
# What goes onto a host, a folder a subject: units, templates, and the programs of a Spark.
HOST_FILES = FILES / "host"
