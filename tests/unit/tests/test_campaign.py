"""What the clients of a campaign may see."""

import pytest

from tests.campaign.faults import BLOWS, ENDS
from tests.campaign.invariants import Window, objections
from tests.campaign.plan import BROKEN, FAULTS, REFUSED, SPARKS, UNREACHABLE, WHOLE, draw
from tests.driver.load import Answer


@pytest.mark.parametrize(
    ("problem", "worst"),
    [
        (None, WHOLE),
        ("503 {...}", REFUSED),
        ("broke off: []", BROKEN),
        ("502 {...}", BROKEN),
        ("ChunkedEncodingError(...)", BROKEN),
        ("ConnectionError(...)", UNREACHABLE),
        ("401 {...}", UNREACHABLE + 1),
    ],
)
def test_an_answer_must_be_explained(problem: str | None, worst: int) -> None:
    answer = Answer(client=0, began=10, ended=20, problem=problem)
    for level in (WHOLE, REFUSED, BROKEN, UNREACHABLE):
        window = Window(15, level, ended=16)
        assert bool(list(objections("spark1", [answer], [window]))) == (level < worst)


@pytest.mark.parametrize("window", [Window(21, 3), Window(1, 3, ended=9), Window(1, 3, "spark2")])
def test_what_happened_elsewhere_explains_nothing(window: Window) -> None:
    answer = Answer(client=0, began=10, ended=20, problem="502 {...}")
    (problem,) = objections("spark1", [answer], [window])
    assert "spark1 saw '502 {...}' after 10.0 s, where whole answers were" in problem


def test_a_gateway_breaks_off_what_another_spark_was_saying() -> None:
    window = Window(15, UNREACHABLE, "spark2")
    broken, refused = (
        Answer(0, 10, 20, problem) for problem in ("broke off: []", "ConnectionError")
    )
    assert not list(objections("spark1", [broken], [window], gateway=True))
    assert list(objections("spark1", [refused], [window], gateway=True))


def test_each_fault_strikes_and_what_lasts_has_an_end() -> None:
    assert FAULTS.keys() - BLOWS.keys() == {"run killed"}
    assert BLOWS.keys() <= FAULTS.keys()
    assert {name for name, kind in FAULTS.items() if kind.seconds[1]} == ENDS.keys()


def test_rounds_of_all_kinds_are_drawn_and_strike_any_spark() -> None:
    struck: dict[str, set[int]] = {}
    waiting: dict[str, set[bool]] = {}
    for number in range(200):
        drawn = draw(7, number)
        strikes = (strike for scene in drawn.scenes for strike in scene.strikes)
        struck.setdefault(drawn.topology, set()).update(strike.spark for strike in strikes)
        waiting.setdefault(drawn.topology, set()).add(drawn.standbys)
    assert {name: len(sparks) for name, sparks in struck.items()} == SPARKS
    assert waiting == {name: {False, True} for name in SPARKS}
