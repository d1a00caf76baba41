"""The ring's file, whatever a loss of power, or time, has left of it; and lines."""

import os
import random
from pathlib import Path

import pytest

from host.insight.recorder.ring import BLOCK, HEAD, SIZE, Ring, line, parse
from host.insight.recorder.ring import lines as read

READINGS = (1795819970, 13602, 61.42, 67, 2405, 19410, 0, 3.52, 98.9, 0, 72959, 120034)
TEXT = "1795819970 13602 61.42 67 2405 19410 0 3.52 98.9 0 72959 120034"
WORD = "1795819971 13603 ! NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus."


def lines(first: int, count: int) -> list[str]:
    return [line((1795819970 + n, n, *READINGS[2:])) for n in range(first, first + count)]


def test_a_line_says_what_was_read() -> None:
    assert line(READINGS) == TEXT
    (found,) = parse([TEXT])
    assert found.now == dict(zip(HEAD.split(), READINGS, strict=True))
    assert (found.text, found.word) == (TEXT, "")
    (word,) = parse([WORD])
    assert line((1795819971, 13603), word.word) == WORD
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
    assert read(path) == []
    ring = Ring(path)
    assert read(path) == []
    for number in range(SIZE // BLOCK + 7):
        ring.write(lines(20 * number, 20))
    assert path.stat().st_size == SIZE
    assert path.stat().st_mode & 0o777 == 0o640
    ups = [each.now["up"] for each in read(path)]
    # More than half an hour of lines.
    assert ups == [*range(140, 20 * (SIZE // BLOCK + 7))]
    # The next start begins anew.
    Ring(path)
    assert path.stat().st_size == SIZE
    assert read(path) == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to(tmp_path / "shadow")
    with pytest.raises(OSError, match="symbolic links"):
        Ring(tmp_path / "ring")


def test_a_block_has_room_for_so_much(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "ring")
    ring.write(lines(0, 500))
    ring.write(["é" * 5000])
    ring.write([TEXT])
    found = read(tmp_path / "ring")
    assert len(found) in range(50, 80)
    assert found[-1].text == TEXT


@pytest.mark.parametrize("seed", range(15))
def test_whatever_is_damaged_the_rest_is_read(tmp_path: Path, seed: int) -> None:
    draw, path = random.Random(seed), tmp_path / "ring"
    ring = Ring(path)
    for number in range(30):
        ring.write(lines(20 * number, 20))
    content = bytearray(path.read_bytes())
    hit = draw.randrange(30)
    at = hit * BLOCK + draw.randrange(BLOCK)
    match seed % 3:
        case 0:
            content[at : at + 512] = draw.randbytes(512)
        case 1:
            content[hit * BLOCK : (hit + 1) * BLOCK] = bytes(BLOCK)
        case 2:
            del content[at:]
    path.write_bytes(content)
    ups = {each.now["up"] for each in read(path)}
    lost = range(20 * hit, 600) if seed % 3 == 2 else range(20 * hit, 20 * (hit + 2))
    assert {*range(600)} - ups <= {*lost}


def test_garbage_is_no_ring_and_becomes_one(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    path.write_bytes(os.urandom(SIZE + 5))
    assert read(path) == []
    Ring(path).write([TEXT])
    assert [each.text for each in read(path)] == [TEXT]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (("61.42", " 67", "2405 "), "61.42 67 2405"),
        (("[N/A]", "67", "[Unknown Error]"), "- 67 -"),
        (("1e9", "nan", "-5", "", None, "\u0661", 40 * "9"), "- - - - - - -"),
    ],
)
def test_what_is_no_number_is_left_out(said: tuple[str | None, ...], found: str) -> None:
    assert line(said) == found
