"""What serves, and what served before, of one of a Spark's two replicas."""

from sparkwright.rollback.rollback import parse_history
from sparkwright.rollout.serving import ServingState, parse_serving

SEATS = ["@@seats", '/r/releases/b-1/unit.json:  "seat": "embed",']
FIRST, SECOND = ["@@seat", "", *SEATS], ["@@seat", "embed", *SEATS]
HISTORY = [
    *("@@history", "a-0", "a-1", "@@current", "releases/a-1", "@@releases", "a-0", "a-1", "b-1"),
    *("@@switches", "switch@b-1.service"),
]
SERVING = ["@@current", "", "@@engines", 'b-1\tf00\t{"served_names": ["other"]}']


def test_a_switch_of_one_is_none_of_the_other() -> None:
    assert parse_history([*FIRST, *HISTORY]).under_way == ()
    assert parse_history([*FIRST, *HISTORY]).before == "a-0"
    assert parse_history([*SECOND, *HISTORY]).under_way == ("b-1",)


def test_the_engine_of_one_does_not_stand_for_the_other() -> None:
    assert parse_serving([*FIRST, *SERVING]) == ServingState()
    assert parse_serving([*SECOND, *SERVING]).names == {"other"}
