"""What gets through the door, and how; no trick gets past the list of paths, or the key."""

import http.client
import json
import re
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.door.running import KEYED, Engines, FakeServer, Running, asked, haproxy, stream
from tests.component.servers import until
from tests.makers.door import KEY, OTHER, own_certificate

pytestmark = haproxy

# The routes of vLLM 0.33: those that a key opens, and those that nobody needs from outside.
OPEN_GET = "/v1/models /v1/responses/resp_0a-1 /metrics /metrics/door"
OPEN_POST = """\
/v1/chat/completions /v1/chat/completions/batch /v1/chat/completions/render
/v1/chat/completions/derender /v1/completions /v1/responses /v1/messages
/v1/messages/count_tokens /v1/decisions /v1/systemone
"""
CLOSED_GET = "/ /ping /load /version /docs /openapi.json /kv_event_sources"
CLOSED_POST = """\
/ping /tokenize /detokenize /invocations /generative_scoring /inference/v1/generate
/scale_elastic_ep /sleep /v1/load_lora_adapter /v1/unload_lora_adapter
"""


def routes(get: str, post: str) -> list[tuple[str, str]]:
    return [("GET", path) for path in get.split()] + [("POST", path) for path in post.split()]


WITH_KEY, CLOSED = routes(OPEN_GET, OPEN_POST), routes(CLOSED_GET, CLOSED_POST)


def test_each_endpoint_without_a_key_with_a_wrong_one_and_the_right_one(
    running: Running, engine: FakeServer
) -> None:
    wrong = (None, "", KEY[:-1], KEY + "0", KEY.upper(), f"{KEY} {KEY}", OTHER)
    for method, path in WITH_KEY:
        for key in wrong:
            status, said, head = running.ask(method, path, key)
            assert (status, said["error"]["code"]) == (401, "invalid_api_key"), (path, key)
            assert head["WWW-Authenticate"] == "Bearer"
    assert not engine.paths.keys() - {"/health"}
    for method, path in WITH_KEY:
        assert running.status(method, path) == 200, path
        assert running.status(method, path, None, **{"x-api-key": KEY}) == 200, path
        assert running.status(method, path, None, Authorization=f"bearer {KEY}") == 200, path
    for method, path in CLOSED:
        for key in (None, OTHER, KEY):
            status, said, _ = running.ask(method, path, key)
            assert (status, said["error"]["code"]) == (404, "not_found"), (path, key)
    assert running.status("GET", "/health", None) == 200
    assert running.status("HEAD", "/v1/models") == 200


def test_methods_and_bodies(running: Running, engine: FakeServer) -> None:
    for method, path in (
        ("DELETE", "/v1/models"),
        ("PUT", "/v1/models"),
        ("TRACE", "/v1/models"),
        ("OPTIONS", "/v1/models"),
        ("POST", "/health"),
        ("OPTIONS", "/metrics"),
        ("POST", "/metrics/door"),
    ):
        status, said, head = running.ask(method, path)
        assert (status, said["error"]["code"]) == (405, "method_not_allowed"), (method, path)
        assert "GET" in head["Allow"]
    path = "/v1/completions"
    assert running.ask("POST", path, body=b"x" * 1024**2)[1]["size"] == 1024**2
    # Refused by what it says of itself: before it comes. Cut down to 32 bits, 2^32 + 1 is small.
    for size in (1024**2 + 1, 2**31, 2**32 + 1, 2**63 - 1, 2**64 - 1, 2**64 + 1):
        status, said, _ = running.ask("POST", path, body=b"", **{"Content-Length": str(size)})
        assert (status, said["error"]["code"]) == (413, "request_too_large"), size
        assert "1 MiB" in said["error"]["message"]
    for length in ("-1", "+1", "1,2", "0x10"):
        with suppress(ConnectionError):
            assert running.status("POST", path, **{"Content-Length": length}) == 400
    client = running.client()
    head = {**KEYED, "Transfer-Encoding": "chunked"}
    with suppress(ConnectionError):
        client.request("POST", path, iter([b"x" * 10]), head, encode_chunked=True)
    assert client.getresponse().status == 411
    assert engine.paths[path] == 1


def test_a_page_of_a_browser_may_ask_first(running: Running, engine: FakeServer) -> None:
    asks = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}
    assert running.status("OPTIONS", "/v1/chat/completions", None, **asks) == 200
    assert running.status("OPTIONS", "/invocations", None, **asks) == 404
    assert running.status("OPTIONS", "/metrics", None, **asks) == 405
    assert engine.paths["/v1/chat/completions"] == 1
    # A page can read what went wrong.
    head = running.ask("POST", "/v1/chat/completions", None, Origin=asks["Origin"])[2]
    assert head["Access-Control-Allow-Origin"] == "*"


def test_the_engine_learns_who_asks_and_no_key(running: Running, engine: FakeServer) -> None:
    sent = {"X-Forwarded-For": "10.9.9.9", "X-Api-Key": KEY, "X-Forwarded-Proto": "https"}
    head = {k.lower(): v for k, v in running.ask("GET", "/v1/models", **sent)[1]["head"].items()}
    assert head["x-forwarded-for"] == "127.0.0.1"
    assert head["x-forwarded-proto"] == "http"
    assert not {"authorization", "x-api-key"} & head.keys()


def test_a_stream_comes_piece_by_piece(running: Running, engine: FakeServer) -> None:
    """The engine says each piece only after the one before has come."""
    with stream(running, pieces=8) as answer:
        for _ in range(8):
            engine.turns.release()
            assert answer.read1(1) == b"a"
    # Broken off, it ends with an error: a client need not know what the last piece should be.
    engine.dies = True
    with stream(running, pieces=3, pause=0) as answer, pytest.raises(http.client.IncompleteRead):
        answer.read()


def test_a_client_that_leaves_ends_its_request_in_the_engine(
    running: Running, engine: FakeServer
) -> None:
    with stream(running, pieces=100_000, pause=0.02) as answer:
        answer.read1(1)
        assert running.door.busy("a") == 1
    until(lambda: engine.aborted == 1)
    until(lambda: running.door.busy("a") == 0)
    # One that waits for an answer in one piece, too.
    engine.pause = patience()
    client = running.client()
    client.request("GET", "/v1/models", headers=KEYED)
    until(lambda: running.door.busy("a") == 1)
    client.close()
    until(lambda: running.door.busy("a") == 0)


def test_no_engine_is_503_for_clients_to_try_again(running: Running) -> None:
    for path in ("/v1/models", "/health", "/metrics"):
        status, said, head = running.ask("GET", path)
        assert (status, said["error"]["code"]) == (503, "engine_unavailable")
        assert head["Retry-After"] == "10"
        assert head["Content-Type"] == "application/json"
    status, said, _ = running.ask("GET", "/metrics/host")
    assert (status, said["error"]["code"]) == (503, "no_node_exporter")
    assert "haproxy_frontend_http_responses_total" in running.ask("GET", "/metrics/door")[1]["text"]


def test_it_speaks_no_http_2(running: Running, engine: FakeServer) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=patience()) as client:
        # The preface, and an empty SETTINGS frame.
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_tls_with_the_owners_certificate(
    running: Running, engines: Engines, tmp_path: Path
) -> None:
    engines("a")
    running.door.offer("a")
    tls = own_certificate(tmp_path)
    running.change(certificate=tls)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    client = http.client.HTTPSConnection(
        "127.0.0.1", running.port, timeout=patience(), context=trusting
    )
    for _ in range(2):
        client.request("GET", "/v1/models", headers=KEYED)
        answer = client.getresponse()
        assert answer.status == 200
    head = {k.lower(): v for k, v in json.loads(answer.read())["head"].items()}
    assert head["x-forwarded-proto"] == "https"
    assert client.sock.selected_alpn_protocol() == "http/1.1"  # type: ignore[attr-defined]


def test_a_client_may_be_silent_while_the_engine_thinks(
    running: Running, engine: FakeServer
) -> None:
    """The timeout for clients, here 1 s, does not run while it is the engine's turn."""
    config = running.root / "door" / "door.cfg"
    text = re.sub(r"timeout client \w+", "timeout client 1s", config.read_text())
    config.write_text(text)
    running.reload()
    engine.pause = 1.5
    assert running.status("GET", "/v1/models") == 200


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
