"""What a plan says of what serves now, and of the switch."""

from dataclasses import replace

import pytest

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.memory.known_checkpoints import nominal_load
from sparkwright.memory.plan import plan_memory
from sparkwright.preflight.summary import Intent, summary
from sparkwright.recipe.loader import load_recipe
from tests.makers.preflight import FIT, WANTED

RECIPE = load_recipe("qwen3.6-35b-nvidia")
TOTAL = int(HARDWARE["gb10"].total_gib * GIB)


@pytest.mark.parametrize(
    ("serves", "free", "hold", "said"),
    [
        (None, 100, 480, "release new-1; nothing serves now"),
        ("new-1", 20, 480, "release new-1; it is the one that serves now"),
        ("old-1", 110, 480, "release new-1; old-1 serves until this one does"),
        ("old-1", 20, 480, "old-1 serves now and ends first: the door holds requests for up to 48"),
        ("old-1", 20, 0, "old-1 serves now and ends first: requests fail meanwhile"),
    ],
)
def test_what_serves_and_whether_the_switch_has_a_gap(
    serves: str | None, free: int, hold: int, said: str
) -> None:
    survey = replace(FIT, serves=serves, available=free * GIB)
    plan = plan_memory(nominal_load(RECIPE.for_sparks(1), 1), TOTAL, True)
    intent = Intent("chat", RECIPE.name, "new-1", 8000, ("m",), hold=hold)
    assert said in "\n".join(summary(intent, survey, WANTED, plan))
    # The engines of a pair have fixed ports: never two.
    pair = plan_memory(nominal_load(RECIPE.for_sparks(2), 2), TOTAL, True)
    text = "\n".join(summary(intent, survey, WANTED, pair))
    assert ("until this one does" in text) is False
