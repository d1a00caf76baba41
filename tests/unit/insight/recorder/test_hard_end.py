"""The end of the previous boot, as a start finds it in the ring: last minutes, and their causes."""

import json
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from host.insight.recorder import recorder
from host.insight.recorder.judge import GONE, HEAD, NOTED, Line, judge, line, parse, worst
from host.insight.recorder.recorder import BLOCK, SIZE, hard_end
from host.state.status import hard_down
from sparkwright.common.placed import unit_names
from sparkwright.common.ports import RECORDER_PORT
from sparkwright.insight.doctor.checkup import HardDown
from sparkwright.insight.monitoring.deploy import RECORDER as UNIT
from sparkwright.plan.causes.thresholds import EARLYOOM
from tests.security.test_units import directives, text

FIRST, SECOND = "75ced331-0000-4612-8914-805af3b0cbca", "11111111-0000-4612-8914-805af3b0cbca"
KILLED = "Out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:204800kB, anon-rss:9kB"
OFF_THE_BUS = "NVRM: Xid (PCI:000f:01:00): 79, pid='<unknown>', GPU has fallen off the bus."
PROGRAM = "NVRM: Xid (PCI:000f:01:00): 31, pid=9115, MMU Fault: Fault is of type FAULT_PTE"
FATAL = "pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0"
CORRECTED = "pcieport 0000:00:00.0: AER: Correctable error message received from 0000:01:00.0"
NO_MEMORY = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)"
SOFT = "watchdog: BUG: soft lockup - CPU#7 stuck for 26s! [kworker/7:1:431]"
PANIC = "Kernel panic - not syncing: hung_task: blocked tasks"
CRITICAL = "thermal thermal_zone0: acpitz: critical temperature reached (105 C), shutting down"


def life(
    words: Mapping[int, str] | None = None, seconds: int = 180, jump: int = 0, **shapes: Any
) -> list[Line]:
    """Return the lines of an engine at work, but for what is given by seconds before the end."""
    lacks, texts = shapes.pop("lacks", ()), []
    for left in range(seconds - 1, -1, -1):
        now = (1_795_000_000 - left + jump * (left < seconds / 2), 90_000 - left)
        sound = {"watts": 40 + left % 50, "celsius": 62 + left % 17, "megahertz": 2405}
        sound |= {"available": 17.2 + left % 7 / 10, "memory": left % 2, "io": left % 30}
        sound |= {"cpu": left % 99, "swap": 0, "disk": 72_959, "steps": 9999 - left}
        sound |= {key: of(left) if callable(of) else of for key, of in shapes.items()}
        texts += [] if left in lacks else [line((*now, *sound.values()))]
        texts += [line(now, words[left])] if words and left in words else []
    found = [*parse(texts)]
    assert len(found) == len(texts)
    return found


def falling(to: float) -> Any:
    """Return memory that falls from 20 per cent to another share within the last 15 seconds."""
    return lambda left: round(to + max(0, min(20 - to, left * 1.4)), 2)


ENDS: dict[str, list[dict[str, Any]]] = {
    "power": [
        *({}, {"watts": 4, "celsius": 38}, {"seconds": 3}, {"disk": 0}, {"io": 97, "cpu": 99}),
        *({"watts": None, "celsius": None, "megahertz": None}, {"jump": -86_400}, {"jump": 9999}),
        # The kernel made room; a program's own fault; what a bus mends by itself.
        *({"words": {20: KILLED}}, {"words": {5: PROGRAM}}, {"words": {2: CORRECTED}}),
    ],
    "memory": [
        *({"words": {1: KILLED}}, {"words": {2: NO_MEMORY}}, {"available": falling(0.4)}),
        {"available": falling(6), "memory": lambda left: max(0, 70 - 4 * left)},
        {"available": falling(3), "lacks": range(4, 24)},
        {"available": falling(0.3), "celsius": 91},
    ],
    "heat": [{"celsius": lambda left: 91 - left // 10}, {"words": {1: CRITICAL}}],
    "driver": [
        *({"words": {90: OFF_THE_BUS, 30: SOFT}}, {"words": {3: FATAL}}),
        # nvidia-smi fell silent.
        {"celsius": lambda left: None if left < 15 else 70},
    ],
    "lock-up": [
        *({"words": {12: SOFT, 2: SOFT}}, {"words": {0: PANIC}}, {"lacks": range(6, 36)}),
        {"words": {0: "watchdog reset"}},
    ],
    "not known": [
        # An engine may leave so little all day.
        *({"available": 3.5}, {"memory": 30}, {"celsius": 88}, {"seconds": 1}, {"seconds": 0}),
    ],
}


@pytest.mark.parametrize(("cause", "end"), [(cause, end) for cause in ENDS for end in ENDS[cause]])
def test_an_end_has_its_cause_and_evidence(cause: str, end: dict[str, Any]) -> None:
    words = [*end.get("words", {}).values()]
    found, why = judge(life(**end))
    assert (found, len(why) < 200) == (cause, True), why
    assert why in words or cause == "power" or not words
    assert all(map(NOTED.search, words))
    assert not NOTED.search("docker0: port 1 entered forwarding state")


def test_a_limit_is_beyond_those_before() -> None:
    """So that each that is passed has a write of its own."""
    assert [worst([{"available": each}])[3] for each in (10, 9, 3.9, 1.9)] == [0, 1, 2, 3]
    assert worst([{"memory": 50.0, "celsius": 90.0}, {}]) == (100, 50, 90, 4)
    assert GONE == EARLYOOM


TEXT = "1795819970 13602 61.42 67 2405 15.8 0 3.52 98.9 0 72959 120034"


def test_a_line_says_what_was_read() -> None:
    readings = (1795819970, 13602, "61.42", " 67", "2405 ", 15.8, 0, "3.52", 98.9, 0, 72959, 120034)
    assert line(readings) == TEXT
    numbers = dict(zip(HEAD.split(), map(float, TEXT.split()), strict=True))
    assert [*parse([TEXT])] == [{"text": TEXT, "word": "", **numbers}]
    lacking = ("[N/A]", "nan", "-5", "", None, "\u0661", 40 * "9", "1e9", "inf", "0x1")
    assert line((1, 2, *lacking)) == f"1 2{10 * ' -'}"
    assert line((1, 2), "a\nb\x1b[31mc é" + 300 * "x") == f"1 2 ! a?b?[31mc ?{149 * 'x'}"


def test_what_is_no_line_is_none() -> None:
    wrong = ("nan", "1e9", "-67", 40 * "9", "\u0661", "6\t7")
    words = ("", "é", 161 * "x", "a\x1bb")
    texts = ["", "1 2", "1 2 3", f"{TEXT} 7", TEXT[:-7], TEXT.replace("13602", "-"), 5000 * "1 "]
    texts += [*(TEXT.replace("67", each) for each in wrong), *(f"1 2 ! {each}" for each in words)]
    assert [*parse(texts)] == []


def lines(count: int, ahead: float = 0) -> list[str]:
    begun = int(time.time() + ahead) - 600
    return [line((begun + n, 100 + n, 61, 67, 2405, 15, 0, 3, 9, 0, 99, n)) for n in range(count)]


def blocks(texts: list[str]) -> bytes:
    """Return a ring with 20 lines in a block."""
    parts = ("\n".join(texts[n : n + 20]).ljust(BLOCK, "\n") for n in range(0, len(texts), 20))
    return "".join(parts).encode()


def judged(root: Path, ring: bytes, recording: str = FIRST) -> Any:
    """Return what the start of SECOND writes down."""
    (root / "state").mkdir(exist_ok=True)
    (root / "state/flight-recorder").write_bytes(ring)
    (root / "state/recording").write_text(recording)
    hard_end(root, SECOND)
    down = root / "state/last-down.json"
    return json.loads(down.read_text()) if down.exists() else None


def test_a_life_without_an_end_is_judged_and_told_to_both_seats(tmp_path: Path) -> None:
    texts = lines(60)
    # The ring is round: what is oldest stands after what is newest.
    found = judged(tmp_path, blocks(texts[20:]) + blocks(texts[:20]) + bytes(99))
    assert (found["cause"], found["at"]) == ("power", float(texts[-1].split()[0]))
    assert abs(found["back"] - time.time()) < 60
    assert found["lines"] == [HEAD, *texts[-10:]]
    assert "UTC; cause power: all was in order to the last line: 15.0 % of" in found["said"]
    assert (tmp_path / "state/last-down.lines").read_text().splitlines() == texts
    for place in (tmp_path, tmp_path / "seats/second"):
        told = HardDown.model_validate_json(json.dumps(hard_down(str(place))))
        assert (told.cause, told.said, [*told.lines]) == ("power", found["said"], found["lines"])
    # A clock that was ahead is no time to come.
    found = judged(tmp_path, blocks(lines(60, ahead=86_400)))
    assert found["at"] <= found["back"]


@pytest.mark.parametrize(
    ("recording", "texts"),
    [("", lines(9)), (SECOND, lines(9)), (FIRST, []), (FIRST, ["damaged"])],
)
def test_no_hard_end(tmp_path: Path, recording: str, texts: list[str]) -> None:
    assert judged(tmp_path, blocks(texts), recording) is None


@pytest.mark.parametrize("seed", range(9))
def test_whatever_is_damaged_the_rest_is_read(tmp_path: Path, seed: int) -> None:
    draw, content = random.Random(seed), bytearray(blocks(lines(600)))
    hit = draw.randrange(len(content) // BLOCK)
    at = hit * BLOCK + draw.randrange(BLOCK)
    content[at : at + 512] = draw.randbytes(512) if seed % 3 else bytes(512)
    judged(tmp_path, bytes(content) + draw.randbytes(SIZE))
    kept = parse((tmp_path / "state/last-down.lines").read_text().splitlines())
    lost = {*range(100, 700)} - {each["up"] for each in kept}
    assert lost <= {*range(100 + 20 * hit, 140 + 20 * hit)}


def test_what_the_kernel_said_elsewhere_counts_and_a_full_disk_keeps_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [{"at": time.time() - 3600, "lines": ["hello", PANIC + 500 * "x"]}]
    monkeypatch.setattr(recorder, "pstore", lambda: records)
    # One from before this life's last line says nothing of its end.
    assert judged(tmp_path, blocks(lines(60)))["cause"] == "power"
    records[0]["at"] = time.time()
    assert judged(tmp_path, blocks(lines(60)))["cause"] == "lock-up"

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder, "replace", full)
    records[0]["lines"] = [SOFT]
    judged(tmp_path, blocks(lines(60)))
    assert f"cause lock-up: {SOFT}\n" in capsys.readouterr().err


DOWN = {
    "at": 1,
    "back": time.time(),
    "cause": 99 * "x",
    "said": 999 * "y",
    "lines": 99 * [99 * [7]],
}


def test_what_a_file_tells_is_bounded_and_of_a_day(tmp_path: Path) -> None:
    def read(content: str) -> Any:
        (tmp_path / "state").mkdir(exist_ok=True)
        (tmp_path / "state/last-down.json").write_text(content)
        return hard_down(str(tmp_path))

    assert hard_down(str(tmp_path)) is None
    found = read(json.dumps(DOWN))
    assert [len(found[name]) for name in ("cause", "said", "lines")] == [99, 400, 40]
    assert {len(each) for each in found["lines"]} == {200}
    # The clock was set back since.
    assert read(json.dumps(DOWN | {"back": time.time() + 100}))
    wrong = ({"back": time.time() - 90_000}, {"back": float("inf")}, {"at": "x"}, {"lines": 7})
    damaged = ("", "{", "null", "[]", "7", 100_000 * "[", '{"at": 1}', "\x00\x00")
    for content in (*(json.dumps(DOWN | each) for each in wrong), *damaged):
        assert read(content) is None, content


def test_the_unit_runs_it_whatever_the_engine_does() -> None:
    assert UNIT in unit_names()
    assert directives(UNIT, "WantedBy") == ["multi-user.target"]
    (start,) = [each for each in text(UNIT).splitlines() if each.startswith("ExecStart=")]
    assert " record /opt/qwen36 192.168.100.11 192.168.100.12 192.168.100.13 < <(" in start
    # What ends in order is no hard end.
    assert "\nExecStopPost=/usr/bin/rm -f /opt/qwen36/state/recording\n" in text(UNIT)
    assert recorder.PORT == RECORDER_PORT
