"""The doctor's score: the corpus' form, its split, and the figures that the page has."""

import pytest

from sparkwright.plan.causes.log_causes import causes
from tests.doctor_score.score import (
    LAST_SCORED,
    PARTS,
    PROJECT,
    load,
    score,
)

CASES = {part: load(part) for part in PARTS}


@pytest.mark.parametrize("part", [part for part in PARTS if part != LAST_SCORED])
def test_the_seed_draws_the_same_parts_again(part: str) -> None:
    """Nobody has written entries with the last part: all of it is scored."""
    drawn = part.removeprefix("fresh_").removeprefix("third_")
    assert [case.name for case in CASES[part] if case.part != drawn] == []


@pytest.mark.parametrize("part", PARTS)
def test_the_page_has_the_present_figures(part: str) -> None:
    """Whoever makes the doctor worse has to write so; there is no false alarm."""
    page = " ".join((PROJECT / "docs" / "doctor.md").read_text().split())
    found = score(CASES[part])
    assert str(found) in page
    assert found.alarms == ()


def test_the_readme_counts_the_causes() -> None:
    assert f"{len(causes())} known causes so far" in (PROJECT / "README.md").read_text()
