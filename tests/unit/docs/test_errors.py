"""What docs/troubleshooting.md quotes is what programs print."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkwright.plan.causes.log_causes import from_log
from tests.unit.docs.pages import DOCS, PROJECT, fences

PAGE = (DOCS / "troubleshooting.md").read_text()
QUOTED = [line for block in fences(PAGE, "text") for line in block.splitlines()]
# An engine's line, and the cause that the text below it names.
LOGGED = re.findall(
    r"^```log\n(.*?)\n```\n.*?`([\w-]+)`\]\(causes\.md", PAGE, re.MULTILINE | re.DOTALL
)
HARMLESS = re.findall(
    r"`([^`]{30,})`", PAGE.partition("### Harmless lines of a start")[2].partition("\n## ")[0]
)
_PLACE = "…"


def _texts(path: Path) -> Iterator[str]:
    """Yield each text of a program, with a mark where a value goes."""
    if path.suffix != ".py":
        yield re.sub(r"\{[a-z_]+\}", _PLACE, path.read_text())
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = (
                part.value if isinstance(part, ast.Constant) else _PLACE for part in node.values
            )
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def said() -> str:
    paths = [
        path
        for folder in ("sparkwright", "files/host")
        for path in (PROJECT / folder).rglob("*")
        if path.suffix in (".py", ".cfg", ".sh", ".yaml")
    ]
    return "\0".join(" ".join(text.split()) for path in paths for text in _texts(path))


def test_the_page_quotes_messages() -> None:
    assert len(QUOTED) > 25
    assert len(LOGGED) == len(fences(PAGE, "log"))


@pytest.mark.parametrize("line", QUOTED)
def test_a_quoted_message_is_in_the_code(line: str, said: str) -> None:
    parts = [part.strip() for part in line.split(_PLACE)]
    long = [part for part in parts if len(part) > 3]
    assert long
    assert [part for part in long if part not in said] == []


def test_the_page_names_harmless_lines() -> None:
    assert len(HARMLESS) > 12
    for words in ("cuda capability 12.1", "Mamba cache 'align' mode", "NV_ERR_NO_MEMORY"):
        assert [line for line in HARMLESS if words in line]


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("line", HARMLESS)
def test_a_harmless_line_shows_no_cause(line: str, active: bool) -> None:
    assert from_log([line], active=active) == []


@pytest.mark.parametrize(("line", "name"), LOGGED)
def test_a_quoted_log_line_shows_the_cause(line: str, name: str) -> None:
    assert [each.name for each in from_log([line])][:1] == [name]
