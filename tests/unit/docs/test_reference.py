"""The reference pages are what the code makes of them."""

from pathlib import Path

import click
import pytest

from tests.docs.reference import PAGES, filled, helps


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_as_the_code_makes_it(page: Path) -> None:
    text = page.read_text()
    assert text == filled(text, PAGES[page]()), "made by: python -m tests.docs"


def test_only_what_is_between_the_markers_changes() -> None:
    page = "before\n<!-- made by python -m tests.docs -->\nold\n<!-- end -->\nafter\n"
    new = filled(page, "new")
    assert new.splitlines()[::2] == ["before", "", "", "after"]
    assert "old" not in new
    assert filled(new, "new") == new


def test_every_command_has_a_section_with_its_help() -> None:
    @click.group()
    def whole() -> None:
        """All of it."""

    @whole.command()
    @click.option("--watch", help="Look again.")
    def status(watch: str) -> None:
        """The state."""

    @whole.command(hidden=True)
    def secret() -> None:
        """Not for people."""

    @whole.group()
    def recipes() -> None:
        """What is served."""

    @recipes.command("list")
    def list_recipes() -> None:
        """All of them."""

    text = helps(whole, "tool")
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## `tool`",
        "## `tool recipes`",
        "## `tool recipes list`",
        "## `tool status`",
    ]
    assert "Usage: tool status" not in text
    assert "Look again." in text
