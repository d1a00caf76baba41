"""A hub or registry that lies to the machine that runs pyinfra: no more than bytes and seconds."""

import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.release import web
from sparkwright.release.resolve import resolve_checkpoint, resolve_image
from tests.component.servers import serving
from tests.security.test_hub import BUFFERS, PART, Liar, endless

MOST = 1 << 20
Ask = Callable[[str], object]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[type[Liar], str]]:
    """A liar, and its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(web, "MOST", MOST)

    class Asked(Liar):
        pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Asked)) as address:
        yield Asked, address


def hub(address: str) -> None:
    resolve_checkpoint("owner/model", "main", f"http://{address}")


def registry(address: str) -> None:
    resolve_image(f"{address}/owner/image:1", "aarch64")


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


def junk(content: bytes) -> Callable[[Liar], None]:
    def tell(liar: Liar) -> None:
        liar.head(200, Content_Length=len(content))
        liar.give(content)

    return tell


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
def test_an_answer_costs_a_bounded_number_of_bytes(
    asked: tuple[type[Liar], str], ask: Ask, lie: Callable[[Liar], None], found: str
) -> None:
    liar, address = asked
    liar.lie = lie
    with pytest.raises(PlanError) as caught:
        ask(address)
    assert address in str(caught.value).partition(": found ")[0]
    assert found in str(caught.value)
    assert "expected at most" in str(caught.value)
    assert "try again later, or take" in str(caught.value)
    assert liar.sent < MOST + BUFFERS


@pytest.mark.parametrize("ask", [hub, registry])
def test_an_answer_that_never_ends_costs_a_bounded_time(
    asked: tuple[type[Liar], str], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar, address = asked
    liar.lie = slow_head
    monkeypatch.setattr(web, "LONGEST", 0.5)
    with pytest.raises(PlanError, match=r"found no whole answer within 0\.5 s; expected at most"):
        ask(address)


@pytest.mark.parametrize("ask", [hub, registry])
@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b"9" * 100_000, b"\xff", b"null", b"[1]", b'{"sha": {}, "siblings": 1}'],
    ids=["deep", "number", "bytes", "null", "list", "types"],
)
def test_junk_is_a_problem_of_its_own(
    asked: tuple[type[Liar], str], ask: Ask, content: bytes
) -> None:
    liar, address = asked
    liar.lie = junk(content)
    with pytest.raises(PlanError, match=f"{address}.*: found .*; expected a "):
        ask(address)
