"""The end of the previous boot, as a start finds it in the ring."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from host.insight.recorder import recorder
from host.insight.recorder.ring import Ring, line

FIRST, SECOND = "75ced331-0000-4612-8914-805af3b0cbca", "11111111-0000-4612-8914-805af3b0cbca"
PANIC = "Kernel panic - not syncing: Fatal exception"


def lines(count: int, ahead: float = 0) -> list[str]:
    begun = int(time.time() + ahead) - 600
    return [
        line((begun + n, 100 + n, 61, 67, 2405, 19_410, 0, 3, 9, 0, 72_959, n))
        for n in range(count)
    ]


def judged(root: Path, *blocks: tuple[str, list[str], bool], said: tuple[str, ...] = ()) -> Any:
    """Return what the start of SECOND writes down, after these blocks."""
    (root / "state").mkdir(exist_ok=True)
    ring = Ring(root / "state/flight-recorder")
    for boot, texts, ended in blocks:
        ring.write(boot, texts, ended=ended)
    recorder.hard_end(root, ring, SECOND, 122_500, list(said))
    down = root / "state/last-down.json"
    return json.loads(down.read_text()) if down.exists() else None


def test_a_life_without_an_end_is_judged(tmp_path: Path) -> None:
    texts = lines(60)
    found = judged(tmp_path, (FIRST, texts[:30], False), (FIRST, texts[30:], False))
    assert found["cause"] == "power"
    assert found["at"] == float(texts[-1].split()[0])
    assert abs(found["back"] - time.time()) < 60
    assert found["lines"] == texts[-10:]


@pytest.mark.parametrize(
    "blocks",
    [
        [],
        [(FIRST, lines(9), True)],
        [(FIRST, lines(9), False), (FIRST, [], True)],
        [(FIRST, lines(9), False), (SECOND, lines(9), False)],
        [(FIRST, ["damaged", "1 2 3"], False)],
    ],
)
def test_no_hard_end(tmp_path: Path, blocks: list[tuple[str, list[str], bool]]) -> None:
    assert judged(tmp_path, *blocks) is None


def test_what_the_kernel_said_elsewhere_counts(tmp_path: Path) -> None:
    found = judged(tmp_path, (FIRST, lines(60), False), said=("hello", PANIC))
    assert (found["cause"], found["why"]) == ("lock-up", PANIC)


def test_a_clock_that_was_ahead_is_no_time_to_come(tmp_path: Path) -> None:
    found = judged(tmp_path, (FIRST, lines(60, ahead=86_400), False))
    assert found["cause"] == "power"
    assert found["at"] <= found["back"]


def test_a_disk_without_room_keeps_the_recorder_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    said: list[str] = []
    monkeypatch.setattr(recorder, "show", said.append)
    monkeypatch.setattr(recorder, "replace", full)
    assert judged(tmp_path, (FIRST, lines(60), False)) is None
    assert said[0].startswith("this Spark went down hard: power: all was in order")
