"""Messages name the command as the person typed it."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkwright.cli.main import cli
from sparkwright.common.command_line import (
    DEPLOYS,
    LINE_VARIABLE,
    PROGRAM_VARIABLE,
    handed_on,
    next_line,
    typed_line,
)

PROJECT = Path(__file__).parents[3]
# A command that is spelled out. Beside `next_line`, these may: help, and what is compared with
# pyinfra's own command line. So may the head of a file that several people read.
SPELLED = re.compile(
    r"python -m (deploys|sparkwright)|deploys[/.](\w+\.py|keys|lock|bundle|monitoring|openclaw)"
    r"|pyinfra (inventory|INVENTORY)|[Rr]un(ning)? pyinfra|`sparkwright [a-z]|: sparkwright [a-z]"
)
MAY = {
    "sparkwright/cli/main.py",  # "Runs: …"
    "sparkwright/cli/init.py",
    "sparkwright/common/command_line.py",
    "sparkwright/run/inventory/groups.py",
    "sparkwright/insight/drift/deploy.py",
    # A Spark does not know what its owner types; a unit that did would differ by each run.
    "files/host/insight/monitoring/notify.py",
}


STATUS = "deploys/status.py"
LAB, STARTED = {"SPARKWRIGHT_INVENTORY": "lab"}, {PROGRAM_VARIABLE: "uv run x"}


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (PROGRAM_VARIABLE, LINE_VARIABLE, "SPARKWRIGHT_INVENTORY", "UV"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("said", "environment", "line", "keys"),
    [
        ("/x/tests/docs/__main__.py", {}, "sparkwright apply", "sparkwright keys"),
        (
            "sparkwright plan",
            {"UV": "/bin/uv"},
            "uv run sparkwright apply",
            "uv run sparkwright keys",
        ),
        ("sparkwright -i lab plan", LAB, "sparkwright -i lab apply", "sparkwright -i lab keys"),
        # What `sparkwright` has started.
        ("pyinfra inventory.py deploys/spark.py", STARTED, "uv run x apply", "uv run x keys"),
        (
            f"pyinfra inventory.py {STATUS}",
            {},
            "pyinfra inventory.py deploys/spark.py",
            "sparkwright keys",
        ),
        (
            f"pyinfra -y inventory/lab.py {STATUS}",
            {},
            "pyinfra inventory/lab.py deploys/spark.py",
            "sparkwright -i lab keys",
        ),
        (STATUS, {}, "sparkwright apply", "sparkwright keys"),
    ],
)
def test_the_next_command_is_spelled_as_this_one(
    typed: pytest.MonkeyPatch,
    tmp_path: Path,
    said: str,
    environment: dict[str, str],
    line: str,
    keys: str,
) -> None:
    typed.chdir(tmp_path)
    typed.setattr(sys, "argv", ["/nowhere/" + said.split()[0], *said.split()[1:]])
    for name, value in environment.items():
        typed.setenv(name, value)
    assert next_line("apply", "-y") == f"{line} -y"
    assert next_line("keys show") == f"{keys} show"


def test_an_installed_pyinfra_has_sparkwright_beside_it(
    typed: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sparkwright").touch(0o755)
    typed.setattr(sys, "executable", str(tmp_path / "python3"))
    typed.setattr(sys, "argv", ["../bin/pyinfra", "inventory.py", "deploys/status.py"])
    typed.setenv("PATH", str(tmp_path))
    assert next_line("keys show") == "sparkwright keys show"
    typed.setenv("PATH", "")
    typed.chdir(tmp_path.parent)
    assert next_line("lock") == f"{tmp_path.name}/sparkwright lock"


def test_what_is_handed_on(typed: pytest.MonkeyPatch) -> None:
    typed.setattr(sys, "argv", ["tests", "-i", "lab", "clean", "--data", "a=b c"])
    typed.setenv("SPARKWRIGHT_INVENTORY", "lab")
    assert handed_on() == {
        PROGRAM_VARIABLE: "sparkwright -i lab",
        LINE_VARIABLE: "sparkwright -i lab clean --data 'a=b c'",
    }
    typed.setattr(sys, "argv", ["/bin/pyinfra", "inventory/lab.py", "deploys/x.py"])
    assert typed_line() == "pyinfra inventory/lab.py deploys/x.py"


def test_the_verbs_that_pyinfra_has_are_the_deploys() -> None:
    files = {f"deploys/{path.name}" for path in PROJECT.glob("deploys/[a-z]*.py")}
    assert files == {*DEPLOYS.values()}
    assert {*DEPLOYS} <= {*cli.commands}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that are no docstrings, and the parts of its f-strings."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.lineno, node.value


def test_no_message_spells_a_command_by_itself() -> None:
    paths = [
        path
        for folder in ("sparkwright", "files/host", "deploys")
        for path in (PROJECT / folder).rglob("*.py")
    ]
    assert len(paths) > 200
    found = [
        f"{name}:{line}: {text[:80]}"
        for path in paths
        if (name := path.relative_to(PROJECT).as_posix()) not in MAY
        for line, text in texts(path)
        if SPELLED.search(text) and not text.startswith("# ")
    ]
    assert found == []
