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

# The deploys of a site that are not named as their verbs.
_SPARK = "spark"
_VERBS = {_SPARK: "apply"}
# What pytest is given to verify a site.
_VERIFY = ("tests/verify", "tests/verify/", "sparkwright.verify")
# The verbs that pyinfra has as well, by what it runs for them.
DEPLOYS = {
    _VERBS.get(deploy, deploy): f"deploys/{deploy}.py"
    for deploy in (
        _SPARK,
        *("benchmark", "clean", "doctor", "drift", "gateway", "remove", "rollback"),
        *("start", "status", "stop"),
    )
}


def verb_of(deploy: str) -> str:
    """Return the verb of a deploy, by the stem of its file."""
    return _VERBS.get(deploy, deploy)


def typed_line() -> str:
    """Return the command line of this run as it was typed."""
    return os.environ.get(LINE_VARIABLE) or f"pyinfra {shlex.join(sys.argv[1:])}"


def next_line(verb: str, words: str = "", plain: str | None = None) -> str:
    """Return a further command, as this one was typed: by `sparkwright`, or by plain pyinfra.

    Args:
        verb: A verb of `sparkwright`. What pyinfra has no deploy for is `sparkwright`'s alone.
        words: What follows it.
        plain: The same for pyinfra, where its options differ.
    """
    if _is_plain() and (target := DEPLOYS.get(verb)):
        line = f"pyinfra {_entry()} {target}"
        words = words if plain is None else plain
    elif _is_plain() and verb == "verify":
        own = _entry()
        line = "pytest tests/verify" + (f" --inventory {own}" if own != "inventory.py" else "")
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
    path = Path(sys.argv[0])
    is_module = path.name == "__main__.py" and path.parent.name == "sparkwright"
    if not (is_module or path.name in ("sparkwright", "pyinfra")):
        return ["sparkwright"]
    if os.environ.get("UV"):
        return ["uv", "run", "sparkwright"]
    installed = Path(sys.executable).with_name("sparkwright")
    # A clone that was not installed has no such program.
    if is_module or not installed.is_file():
        return [_relative(Path(sys.executable)), "-m", "sparkwright"]
    found = shutil.which("sparkwright")
    is_found = found is not None and Path(found).samefile(installed)
    return ["sparkwright" if is_found else _relative(installed)]


def _relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _is_plain() -> bool:
    """Tell whether pyinfra or pytest was typed, or a file that pyinfra reads was run by Python."""
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        path = path.parent
    verifies = path.name == "pytest" and any(word in _VERIFY for word in sys.argv[1:])
    is_pyinfra = path.name == "pyinfra" or path.suffix == ".py"
    return PROGRAM_VARIABLE not in os.environ and (is_pyinfra or verifies)


def _entry() -> str:
    """Return the file by which pyinfra knows the inventory, such as inventory/lab.py."""
    words = (Path(word) for word in sys.argv[1:]) if _is_plain() else ()
    own = (each for each in words if each.suffix == ".py" and each.parent.name == "inventory")
    return str(next(own, "inventory.py"))
