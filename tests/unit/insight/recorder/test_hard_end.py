"""The end of the previous boot, as a start finds it in the ring."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from host.insight.recorder import recorder
from host.insight.recorder.ring import HEAD, Ring, line

FIRST, SECOND = "75ced331-0000-4612-8914-805af3b0cbca", "11111111-0000-4612-8914-805af3b0cbca"
PANIC = "Kernel panic - not syncing: Fatal exception"


def lines(count: int, ahead: float = 0) -> list[str]:
    begun = int(time.time() + ahead) - 600
    return [
        line((begun + n, 100 + n, 61, 67, 2405, 19_410, 0, 3, 9, 0, 72_959, n))
        for n in range(count)
    ]


def judged(root: Path, recording: str | None, *blocks: list[str]) -> Any:
    """Return what the start of SECOND writes down, after these blocks."""
    (root / "state").mkdir(exist_ok=True)
    ring = Ring(root / "state/flight-recorder")
    for texts in blocks:
        ring.write(texts)
    if recording is not None:
        (root / "state/recording").write_text(recording)
    recorder.hard_end(root, SECOND)
    down = root / "state/last-down.json"
    return json.loads(down.read_text()) if down.exists() else None


def test_a_life_without_an_end_is_judged(tmp_path: Path) -> None:
    texts = lines(60)
    found = judged(tmp_path, FIRST, texts[:30], texts[30:])
    assert found["cause"] == "power"
    assert found["at"] == float(texts[-1].split()[0])
    assert abs(found["back"] - time.time()) < 60
    assert found["lines"] == [HEAD, *texts[-10:]]
    assert (tmp_path / "state/last-down.lines").read_text().splitlines() == texts


@pytest.mark.parametrize(
    ("recording", "texts"),
    [(None, lines(9)), ("", lines(9)), (SECOND, lines(9)), (FIRST, []), (FIRST, ["damaged"])],
)
def test_no_hard_end(tmp_path: Path, recording: str | None, texts: list[str]) -> None:
    assert judged(tmp_path, recording, texts) is None


def test_what_the_kernel_said_elsewhere_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"at": time.time(), "lines": ["hello", PANIC + 500 * "x"]}]
    monkeypatch.setattr(recorder, "pstore", lambda: records)
    found = judged(tmp_path, FIRST, lines(60))
    assert (found["cause"], found["why"]) == ("lock-up", (PANIC + 500 * "x")[:160])
    # One from before this life's last line says nothing of its end.
    records[0]["at"] = time.time() - 3600
    assert judged(tmp_path, FIRST, lines(60))["cause"] == "power"


def test_a_clock_that_was_ahead_is_no_time_to_come(tmp_path: Path) -> None:
    found = judged(tmp_path, FIRST, lines(60, ahead=86_400))
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
    assert judged(tmp_path, FIRST, lines(60)) is None
    assert said[0].startswith("this Spark went down hard: power: all was in order")
