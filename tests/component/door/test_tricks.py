"""Requests that no client library would send: none gets past the list of paths, or the key."""

import re

import pytest

from tests.component.door.running import FakeServer, Running, asked, haproxy
from tests.component.servers import until
from tests.makers.door import KEY, OTHER

pytestmark = haproxy

TRICKS = r"""
/v1 /v1/ //v1/models /v1//models //invocations /v1/../invocations /v1/.. /v1/./models
/v1/%2e%2e/invocations /v1/..%2finvocations /v1/%2e./invocations /v1/..;/invocations
/v1/models;/../../invocations /v1/%252e%252e/invocations /v1/..\invocations
/v1/\..\invocations /v1/models%00 /v1/models#/../invocations /V1/models /%76%31/models
/health/../invocations /health/ /metrics/../invocations /metrics/door/.. /invocations?/v1/models
/invocations/v1/models http://door/invocations http://door/v1/models *
"""
# HAProxy 2.8.30 hangs up on some of these without a word.
REFUSED = (b"400", b"")
REQUEST = re.compile(r'"([^"]*)"$', re.M)
UPGRADE = {"Connection": "Upgrade", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}


@pytest.mark.parametrize("path", TRICKS.split())
def test_no_path_gets_past_the_list(running: Running, engine: FakeServer, path: str) -> None:
    for method in ("GET", "POST", "CONNECT"):
        said = asked(
            running,
            f"{method} {path} HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer {KEY}\r\n"
            "Content-Length: 0\r\n\r\n",
        )
        assert said[9:12] in (b"404", b"400"), said
    assert not engine.paths.keys() - {"/health"}


@pytest.mark.parametrize(
    ("head", "statuses"),
    [
        ("Content-Length: 1\r\nContent-Length: 2", REFUSED),
        ("Content-Length : 1", REFUSED),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", (b"411",)),
        ("Content-Length: 5\r\nTransfer-Encoding: identity", REFUSED),
        ("Content-Length: 5\r\nTransfer-Encoding:\x0bchunked", REFUSED),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked, identity", REFUSED),
        ("Content-Length: 5\r\nTransfer-Encoding : chunked", REFUSED),
        ("Content-Length: 5\r\nHost: other", REFUSED),
    ],
)
def test_a_body_has_one_length_for_door_and_engine(
    running: Running, engine: FakeServer, head: str, statuses: tuple[bytes, ...]
) -> None:
    """Else a second request could lie in the body of the first, past the list."""
    said = asked(
        running,
        f"POST /v1/completions HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer {KEY}\r\n{head}"
        "\r\n\r\n0\r\n\r\nGET /invocations HTTP/1.1\r\nHost: door\r\n\r\n",
    )
    assert said[9:12] in statuses
    assert not engine.paths.keys() - {"/health"}


def test_a_key_counts_where_it_is_asked_for_alone(running: Running, engine: FakeServer) -> None:
    assert running.plan.keys
    for head in (
        f"Authorization: Bearer wrong\r\nAuthorization: Bearer {KEY}",
        f"Authorization: Basic {KEY}",
        f"Authorization: {KEY}",
        f"Proxy-Authorization: Bearer {KEY}",
        f"Authorization: Bearer {running.plan.keys[0].digest}",
        f"x-api-key: wrong,{KEY}",
        "x-api-key:",
        f"Cookie: authorization=Bearer {KEY}",
    ):
        path = f"/v1/models?api_key={KEY}"
        said = asked(running, f"GET {path} HTTP/1.1\r\nHost: door\r\n{head}\r\n\r\n")
        assert said[9:12] == b"401", head
    assert running.status("GET", "/v1/realtime", None, **UPGRADE, Upgrade="websocket") == 401
    assert not engine.paths.keys() - {"/health"}
    # Of two, the first one is meant, and none goes on.
    both = f"authorization: Bearer {KEY}\r\nAuthorization: Bearer wrong\r\nX-API-KEY: wrong"
    said = asked(running, f"GET /v1/models HTTP/1.1\r\nHost: door\r\n{both}\r\n\r\n")
    assert said[9:12] == b"200"
    assert b"wrong" not in said


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_the_engine_is_asked_for_no_other_protocol(
    running: Running, engine: FakeServer, protocol: str
) -> None:
    upgrade = {**UPGRADE, "Upgrade": protocol}
    page = {"Origin": "http://page.example", "Access-Control-Request-Method": "GET"}
    for method, path, key, more in (
        ("GET", "/v1/realtime", KEY, {}),
        ("OPTIONS", "/v1/realtime", None, page),
    ):
        status, said, _ = running.ask(method, path, key, **upgrade, **more)
        assert status == 200
        assert "upgrade" not in {name.lower() for name in said["head"]}


def test_the_journal_gets_no_key(running: Running, engine: FakeServer) -> None:
    assert running.status("GET", f"/v1/models?api_key={KEY}") == 200
    assert running.status("GET", f"/v1/models?key={KEY}", None, **{"x-api-key": OTHER}) == 401
    assert running.status("GET", f"/invocations?key={KEY}") == 404
    asked(running, f"GET /v1/models?key={KEY} HTTP/1.1\r\nAuthorization : Bearer {KEY}\r\n\r\n")
    # HAProxy's threads write their lines after the answers, and in no order.
    log = running.root / "log"
    until(lambda: len(REQUEST.findall(log.read_text())) == 4)
    assert sorted(REQUEST.findall(log.read_text())) == [
        "<BADREQ> <BADREQ> <BADREQ>",
        "GET /invocations HTTP/1.1",
        "GET /v1/models HTTP/1.1",
        "GET /v1/models HTTP/1.1",
    ]
    assert KEY not in log.read_text()
    assert OTHER not in log.read_text()
