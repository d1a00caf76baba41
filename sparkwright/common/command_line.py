"""The command that a person has typed, for messages that name the next one."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from sparkwright.common.paths import INVENTORY_VARIABLE

# Set by `sparkwright`, which starts pyinfra: the program with its own options, and its whole line.
PROGRAM_VARIABLE, LINE_VARIABLE = "SPARKWRIGHT_PROGRAM", "SPARKWRIGHT_LINE"

_SAME = "benchmark clean doctor drift gateway notify remove rollback start status stop upgrade"
# The verbs that pyinfra has as well, by what it runs for them.
DEPLOYS = {"apply": "deploys/spark.py"} | {verb: f"deploys/{verb}.py" for verb in _SAME.split()}


def verb_of(deploy: str) -> str:
    """Return the verb of a deploy, by the stem of its file."""
    return "apply" if deploy == "spark" else deploy


def typed_line() -> str:
    """Return the command line of this run as it was typed."""
    return os.environ.get(LINE_VARIABLE) or f"pyinfra {shlex.join(sys.argv[1:])}"


def next_line(verb: str, words: str = "") -> str:
    """Return a further command, by the program that was typed: `sparkwright`, or plain pyinfra.

    What pyinfra has no deploy for is `sparkwright`'s alone.
    """
    if _is_plain() and (target := DEPLOYS.get(verb)):
        line = f"pyinfra {_entry()} {target}"
    else:
        line = f"{typed_program()} {verb}"
    return f"{line} {words}".rstrip()


def typed_program() -> str:
    """Return `sparkwright` as it can be called from the site's folder, with its inventory."""
    if given := os.environ.get(PROGRAM_VARIABLE):
        return given
    entry = Path(_entry())
    inventory = os.environ.get(INVENTORY_VARIABLE) or (entry.stem if entry.parent.name else "")
    return shlex.join([*_program(), *(["-i", inventory] if inventory else [])])


def handed_on() -> dict[str, str]:
    """Return the variables by which a program that this one starts names commands as typed."""
    line = shlex.join([*_program(), *sys.argv[1:]])
    return {PROGRAM_VARIABLE: typed_program(), LINE_VARIABLE: line}


def _program() -> list[str]:
    if os.environ.get("UV"):
        return ["uv", "run", "sparkwright"]
    installed, found = Path(sys.executable).with_name("sparkwright"), shutil.which("sparkwright")
    if not installed.is_file() or (found and Path(found).samefile(installed)):
        return ["sparkwright"]
    inside = installed.is_relative_to(Path.cwd())
    return [str(installed.relative_to(Path.cwd()) if inside else installed)]


def _is_plain() -> bool:
    """Tell whether a person has typed pyinfra."""
    return PROGRAM_VARIABLE not in os.environ and Path(sys.argv[0]).name == "pyinfra"


def _entry() -> str:
    """Return the file by which pyinfra knows the inventory, such as inventory/lab.py."""
    words = (Path(word) for word in sys.argv[1:]) if _is_plain() else ()
    own = (each for each in words if each.suffix == ".py" and each.parent.name == "inventory")
    return str(next(own, "inventory.py"))
