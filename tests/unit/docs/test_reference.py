"""The reference pages are what the code makes of them."""

from pathlib import Path

import pytest

from tests.docs.reference import PAGES, filled


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
