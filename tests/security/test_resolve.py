"""A hub or registry that lies to the machine that runs pyinfra: no more than bytes and seconds."""

import time
from collections.abc import Callable

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.plan.release import web
from sparkwright.plan.release.resolve import resolve_checkpoint, resolve_image
from tests.makers.liar import BUFFERS, PART, Liar, Lie, endless, lying

MOST = 1 << 20
Ask = Callable[[str], object]


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(web, "MOST", MOST)


def hub(address: str) -> None:
    resolve_checkpoint("owner/model", "main", address)


def registry(address: str) -> None:
    resolve_image(f"{address.removeprefix('http://')}/owner/image:1", "aarch64")


def endless_refusal(liar: Liar) -> None:
    liar.head(401, WWW_Authenticate='Bearer realm="http://127.0.0.1:9"')
    while True:
        liar.give(PART)


def endless_redirection(liar: Liar) -> None:
    liar.head(302, Location="/elsewhere")
    while True:
        liar.give(PART)


def compressed(liar: Liar) -> None:
    """As a few kilobytes that become gigabytes are."""
    liar.head(200, Content_Encoding="gzip")


def slow_head(liar: Liar) -> None:
    """A byte at a time, for longer than the test takes."""
    liar.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(400):
        liar.wfile.write(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("ask", "lie", "found"),
    [
        (hub, endless, "answers of more than 1,048,576 bytes"),
        (hub, endless_redirection, "more than 3 redirections"),
        (hub, compressed, "compressed by gzip, unasked"),
        (registry, endless, "answers of more than 1,048,576 bytes"),
        (registry, endless_refusal, "answers of more than 1,048,576 bytes"),
        (registry, endless_redirection, "more than 3 redirections"),
        (registry, compressed, "compressed by gzip, unasked"),
    ],
)
def test_an_answer_costs_a_bounded_number_of_bytes(ask: Ask, lie: Lie, found: str) -> None:
    with lying(lie) as (liar, address), pytest.raises(PlanError) as caught:
        ask(address)
    assert address.removeprefix("http://") in str(caught.value).partition(": found ")[0]
    assert found in str(caught.value)
    assert "expected at most" in str(caught.value)
    assert "try again later, or take" in str(caught.value)
    assert liar.sent < MOST + BUFFERS


@pytest.mark.parametrize("ask", [hub, registry])
def test_an_answer_that_never_ends_costs_a_bounded_time(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "LONGEST", 0.5)
    with (
        lying(slow_head) as (_, address),
        pytest.raises(PlanError, match=r"found no whole answer within 0\.5 s; expected at most"),
    ):
        ask(address)
