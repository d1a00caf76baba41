"""A hub, or a mirror in its place, that lies: what it costs in bytes, in tries and in time."""

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab import hub
from tests.makers.fetching import SIZE, Spark, fetching
from tests.makers.liar import BUFFERS, PART, Liar, Lie, endless, lying
from tests.programs import changed_program, ended

# Further tries that a Spark makes here.
TRIES = 3


def promises_much(liar: Liar) -> None:
    liar.head(200, Content_Length=10**15)
    for _ in range(2 * SIZE // len(PART)):
        liar.give(PART)


def breaks_off_at_the_last_byte(liar: Liar) -> None:
    """It never resumes: each time all is sent again but the end."""
    liar.head(200, Content_Length=SIZE)
    liar.give(bytes(SIZE - 1))


def gives_a_byte(liar: Liar) -> None:
    begun = int(liar.headers.get("Range", "bytes=0-")[len("bytes=") : -1])
    whole = f"bytes {begun}-{SIZE - 1}/{SIZE}"
    liar.head(206 if begun else 200, Content_Length=SIZE - begun, Content_Range=whole)
    liar.give(b"\0")


def gives_and_takes_back(liar: Liar) -> None:
    """Every other answer goes on where the last one ended, the rest begin the file again."""
    if type(liar).requests % 2:
        liar.head(200, Content_Length=SIZE)
        liar.give(bytes(SIZE // 4))
    else:
        gives_a_byte(liar)
        liar.give(bytes(SIZE // 4))


def another_part(liar: Liar) -> None:
    liar.head(206, Content_Range=f"bytes 1-{SIZE}/{SIZE}", Content_Length=SIZE)
    liar.give(bytes(SIZE))


def bomb(liar: Liar) -> None:
    """Bytes that grow a thousandfold when they are unpacked."""
    packer = zlib.compressobj(wbits=31)
    liar.head(200, Content_Encoding="gzip")
    while True:
        liar.give(packer.compress(bytes(64 * 1024 * 1024)))


def refuses_without_end(liar: Liar) -> None:
    liar.head(500)
    while True:
        liar.give(PART)


def turns_away_for_ever(liar: Liar) -> None:
    liar.head(302, Location=f"{liar.path}x", Content_Length=0)


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    """A Spark that is to fetch one file of SIZE bytes."""
    with fetching(tmp_path) as spark:
        name = "model.safetensors"
        locked = spark.locked.model_copy(update={"files": {name: spark.locked.files[name]}})
        yield replace(spark, locked=locked)


def refusal(spark: Spark, lie: Lie) -> tuple[str, type[Liar]]:
    """Fetch from a liar until the Spark gives up; return what a user is told, and the liar."""
    with lying(lie) as (liar, spark.url):
        spark.order()
        status, told = spark.fetch(TRIES)
    assert status == 1, told
    assert "Traceback" not in told
    assert spark.progress().phase == "failed"
    assert spark.partial_size() <= SIZE, "more was kept than the lock allows"
    return spark.progress().message, liar


@pytest.mark.parametrize(
    ("lie", "said", "files"),
    [
        (endless, "arrived with a wrong hash 3 times", 3),
        (promises_much, f"it promises {10**15} bytes instead of {SIZE:,}", 0),
        (breaks_off_at_the_last_byte, "it ended early", TRIES + 2),
        (gives_a_byte, "it ended early", 1),
        (gives_and_takes_back, "again and again", TRIES + 2),
        (another_part, "it is another part of the file", 0),
        (bomb, "it is compressed", 0),
        (refuses_without_end, "answers with status 500", 0),
        (turns_away_for_ever, "TooManyRedirects", 0),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_lie_costs_bounded_bytes_and_tries(spark: Spark, lie: Lie, said: str, files: int) -> None:
    """`files` is how often all bytes of the file may be read before the Spark gives up."""
    message, liar = refusal(spark, lie)
    assert said in message
    tries = liar.requests if lie is not turns_away_for_ever else liar.requests // 21
    assert tries <= 2 * TRIES + 2
    assert liar.sent <= files * SIZE + tries * BUFFERS


CHECK = """
from host.artifacts.weights import check_token
check_token.DELAYS = (0.05,) * 4
check_token.command()
"""


def whose(spark: Spark, lie: Lie) -> tuple[str, type[Liar]]:
    """Ask a liar whose token it is; return what is said, and the liar."""
    token = spark.root / "secrets/hf-token"
    token.write_text("hf_lab_reader\n")
    with lying(lie) as (liar, url):
        own = {"HF_ENDPOINT": url, "HF_TOKEN_PATH": str(token), "HF_HOME": str(spark.root)}
        done = ended(changed_program(CHECK), env=own | {"HF_HUB_DISABLE_TELEMETRY": "1"})
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr, liar


def says(liar: Liar, body: bytes) -> None:
    liar.head(200, Content_Length=len(body))
    liar.give(body)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (endless, "cannot say whose token it is (status 200)"),
        (bomb, "cannot say whose token it is (status 200)"),
        (refuses_without_end, "cannot say whose token it is (status 500)"),
        (turns_away_for_ever, "cannot be reached from this Spark: TooManyRedirects"),
        (lambda liar: liar.head(429, Retry_After=10**9), "(status 429)"),
        (lambda liar: says(liar, b"[" * 60_000), "(status 200)"),
        (lambda liar: says(liar, b'{"name": "\\u001b[2J"}'), "(status 200)"),
        (lambda liar: says(liar, b'{"name": "somebody"}'), "somebody"),
    ],
)
def test_a_token_is_proved_in_bounds(spark: Spark, lie: Lie, said: str) -> None:
    told, liar = whose(spark, lie)
    assert said in told
    assert len(told) < 600
    assert "\x1b" not in told
    assert liar.sent <= 4 * BUFFERS


def test_what_was_fetched_before_the_lie_is_kept(spark: Spark) -> None:
    had, honest = spark.fetch_part(), spark.url
    refusal(spark, promises_much)
    assert spark.partial_size() == had
    spark.url = honest
    hub.clear_faults(spark.url)
    spark.order()
    spark.succeed()


def test_a_hubs_own_words_are_cut(spark: Spark) -> None:
    message, liar = refusal(spark, lambda liar: liar.head(403, X_Error_Message="no " * 5000))
    assert len(message) < 600
    assert liar.requests == 1
