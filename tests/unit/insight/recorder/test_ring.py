"""The ring's file, whatever a loss of power, or time, has left of it; and lines."""

import os
import random
from pathlib import Path

import pytest

from host.insight.recorder import recorder
from host.insight.recorder.judge import trouble
from host.insight.recorder.ring import BLOCK, BLOCKS, FIELDS, Ring, line, parse

BOOT, OTHER = "75ced331-a1aa-4612-8914-805af3b0cbca", "11111111-a1aa-4612-8914-805af3b0cbca"
READINGS = (1795819970, 13602, 61.42, 67, 2405, 19410, 0, 3.52, 98.9, 0, 72959, 120034)
TEXT = "1795819970 13602 61.42 67 2405 19410 0 3.52 98.9 0 72959 120034"
WORD = "1795819971 13603 ! NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus."


def lines(first: int, count: int) -> list[str]:
    return [line((1795819970 + n, n, *READINGS[2:])) for n in range(first, first + count)]


def test_a_line_says_what_was_read() -> None:
    assert line(READINGS) == TEXT
    (found,) = parse([TEXT])
    assert found.now == dict(zip(FIELDS, READINGS, strict=True))
    assert (found.up, found.word) == (13602, "")
    (word,) = parse([WORD])
    assert line((1795819971.0, 13603.0), word.word) == WORD
    assert word.now == {"time": 1795819971, "up": 13603}
    lacking = line((1, 2, *[None] * 10))
    assert parse([lacking])[0].now == {"time": 1, "up": 2}
    assert parse([line((1, 2), "a\nb\x1b[31mc é" + 300 * "x")])[0].word == f"a?b?[31mc ?{149 * 'x'}"


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n", "-", "1 2", "1 2 3", TEXT + " 7", TEXT[:-7], TEXT[:-7] + " "),
        *(TEXT.replace("13602", "-"), TEXT.replace("67", "nan"), TEXT.replace("67", "1e9")),
        *(TEXT.replace("67", 40 * "9"), TEXT.replace("67", "-67"), TEXT.replace(" ", "\t")),
        *("1 2 ! ", "1 2 ! é", "1 2 ! " + 161 * "x", "x 2 ! y", "1 2 ! a\x1bb", "!", 5000 * "1 "),
        *(TEXT.replace("1", "\u0661"), "flight 1 x on"),
    ],
)
def test_what_is_no_line_is_none(text: str) -> None:
    assert parse([text]) == []


def test_it_is_a_file_of_fixed_size_that_only_root_writes(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    ring = Ring(path)
    assert ring.blocks() == []
    for number in range(BLOCKS + 7):
        ring.write(BOOT, lines(20 * number, 20))
    assert path.stat().st_size == BLOCK * BLOCKS
    assert path.stat().st_mode & 0o777 == 0o640
    blocks = ring.blocks()
    assert [each.number for each in blocks] == [*range(7, BLOCKS + 7)]
    assert parse(blocks[-1].lines)[-1].up == 20 * (BLOCKS + 7) - 1
    # More than half an hour of lines.
    assert sum(len(parse(each.lines)) for each in blocks) > 1800
    # The next start goes on.
    Ring(path).write(OTHER, [], ended=True)
    last = Ring(path).blocks()[-1]
    assert (last.number, last.boot, last.ended) == (BLOCKS + 7, OTHER, True)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to(tmp_path / "shadow")
    with pytest.raises(OSError, match="symbolic links"):
        Ring(tmp_path / "ring")


def test_a_block_has_room_for_so_much(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "ring")
    ring.write(BOOT, lines(0, 500))
    ring.write(BOOT, ["é" * 5000])
    first, second = ring.blocks()
    assert len(parse(first.lines)) in range(50, 80)
    assert second.number == 1


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_damaged_the_rest_is_read(tmp_path: Path, seed: int) -> None:
    draw, path = random.Random(seed), tmp_path / "ring"
    ring = Ring(path)
    for number in range(30):
        ring.write(BOOT, lines(20 * number, 20))
    content = bytearray(path.read_bytes())
    hit = draw.randrange(30)
    at = hit * BLOCK + draw.randrange(BLOCK)
    match seed % 4:
        case 0:
            content[at : at + 512] = draw.randbytes(512)
        case 1:
            content[hit * BLOCK : (hit + 1) * BLOCK] = bytes(BLOCK)
        case 2:
            # A block from elsewhere.
            content[hit * BLOCK : (hit + 1) * BLOCK] = content[40 * BLOCK : 41 * BLOCK]
        case 3:
            del content[at:]
    path.write_bytes(content)
    again = Ring(path)
    assert path.stat().st_size == BLOCK * BLOCKS
    blocks = again.blocks()
    whole = [each.number for each in blocks if len(parse(each.lines)) == 20]
    assert {*range(30)} - {*whole} <= ({*range(hit, 30)} if seed % 4 == 3 else {hit, hit + 1})
    again.write(OTHER, lines(0, 1))
    assert again.blocks()[-1].boot == OTHER


def test_garbage_is_no_ring_and_becomes_one(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    path.write_bytes(os.urandom(BLOCK * BLOCKS + 5))
    ring = Ring(path)
    assert ring.blocks() == []
    ring.write(BOOT, [TEXT])
    assert [each.lines[0] for each in ring.blocks()] == [TEXT]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("61.42, 67, 2405", [61.42, 67, 2405]),
        ("[N/A], 67, [Unknown Error]", [None, 67, None]),
        ("NVIDIA-SMI has failed because it couldn't communicate with the driver", [None] * 3),
        ("", [None] * 3),
        ("1e9, nan, -5", [None] * 3),
        ("9999999, 1, 2, 3, 4", [None, 1, 2]),
    ],
)
def test_readings_of_the_gpu(told: str, found: list[float | None]) -> None:
    assert recorder.gpu(told) == found


def test_more_trouble_is_a_higher_number() -> None:
    def level(**now: float) -> int:
        return trouble({"available": 30_000, **now}, 122_500)

    assert level() == 0
    assert level(memory=0.0, celsius=70) == 0
    sizes = (13_000, 12_000, 4_800, 2_400)
    assert [level(available=each) for each in sizes] == [0, 1, 2, 3]
    assert level(available=2_400, memory=80, celsius=91) == 7
