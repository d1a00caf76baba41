"""The door under attack by those who have no key."""

import http.client
import json
import re
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.door.running import KEYED, FakeServer, Running, haproxy, opened
from tests.component.servers import until
from tests.makers.door import KEY, own_certificate
from tests.programs import ended
from tests.security.attacks import (
    CLIENT,
    CONNECTIONS,
    HOSTILE,
    attack,
    first_token,
    median,
    median_attacked,
)

# As group_data/all.py has them.
SETTINGS = {"max_connections": 1000, "stranger_connections": 200}
# Connections, and requests without a key, that a stranger has a minute: sparkwright/door/door.py.
OFTEN = 600
pytestmark = haproxy


@pytest.fixture
def running(tmp_path: Path, engine: FakeServer) -> Iterator[Running]:
    """A door with the settings of a fresh installation, and the engine behind it."""
    with opened(tmp_path, **SETTINGS) as running:
        running.door.offer("a")
        yield running


@pytest.fixture
def tls(running: Running, tmp_path: Path) -> Callable[[], http.client.HTTPSConnection]:
    """Have the door show a certificate. Returns what makes clients that trust it."""
    running.change(certificate=own_certificate(tmp_path), **SETTINGS)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
    return lambda: http.client.HTTPSConnection(
        "127.0.0.1", running.port, timeout=patience(), context=trusting, source_address=(CLIENT, 0)
    )


def hostile_lines(running: Running) -> list[str]:
    """What the log says of the addresses that clients do not have."""
    found = (running.root / "log").read_text().splitlines()
    return [line for line in found if re.match(r"127\.0\.0\.(?![13]:)", line)]


@pytest.mark.parametrize("kind", ["silent", "head", "body", "page", "answers", "garbage"])
def test_a_client_with_a_key_gets_its_first_token_as_without_the_attack(
    running: Running, kind: str
) -> None:
    calm = median(lambda: first_token(running.client(CLIENT), KEYED))
    with attack(running.port, kind) as under_way:
        assert under_way.held <= SETTINGS["stranger_connections"]
        attacked = median_attacked(lambda: first_token(running.client(CLIENT), KEYED), calm)
        # One that nobody knows yet, too; and whoever asks for its health.
        first_token(running.client("127.0.0.4"), KEYED)
        health = running.client("127.0.0.5")
        health.request("GET", "/health")
        assert health.getresponse().status == 200
        print(f"{kind}: {calm * 1000:.0f} ms, attacked {attacked * 1000:.0f} ms")
        assert attacked < 1.5 * calm
    assert under_way.tried >= CONNECTIONS


def test_silent_handshakes_do_not_hold_up_a_client_with_a_key(
    running: Running, tls: Callable[[], http.client.HTTPSConnection]
) -> None:
    for kind in ("silent", "tls"):
        calm = median(lambda: first_token(tls(), KEYED))
        with attack(running.port, kind) as under_way:
            assert under_way.held <= SETTINGS["stranger_connections"]
            attacked = median_attacked(lambda: first_token(tls(), KEYED), calm)
        print(f"{kind}, TLS: {calm * 1000:.0f} ms, attacked {attacked * 1000:.0f} ms")
        assert attacked < 1.5 * calm


def test_many_sources_leave_a_quarter_to_those_who_have_shown_a_key(running: Running) -> None:
    sources = tuple(f"127.0.0.{number}" for number in range(11, 21))
    calm = median(lambda: first_token(running.client(CLIENT), KEYED))
    with attack(running.port, "silent", 500, sources) as under_way:
        assert under_way.held <= SETTINGS["max_connections"] * 3 // 4
        attacked = median_attacked(lambda: first_token(running.client(CLIENT), KEYED), calm)
        assert attacked < 1.5 * calm


# Addresses of two IPv6 networks of 64 bits, and two of IPv4.
NETWORKS = (("fd00:1::1", "fd00:1::ffff:2"), ("fd00:1:0:1::1",), ("127.0.0.2",), ("127.0.0.3",))
# Makes some connections from each of these, holds all of them, and says which are answered.
HOLD = """
import itertools, socket, sys
port, count, *networks = sys.argv[1:]
kept = []
for network in networks:
    for source, _ in zip(itertools.cycle(network.split()), range(int(count))):
        to = "::1" if ":" in source else "127.0.0.1"
        kept.append(socket.create_connection((to, int(port)), source_address=(source, 0)))
        try:
            kept[-1].sendall(b"GET /health HTTP/1.1\\r\\nHost: door\\r\\n\\r\\n")
            if answer := kept[-1].recv(12):
                print(network, answer.decode(), sep=": ")
        except OSError:
            pass
"""


def test_an_ipv6_network_is_one_stranger(tmp_path: Path) -> None:
    """In a network of its own, which ends with its door."""
    own, addresses = 4, [each for each in chain(*NETWORKS) if ":" in each]
    commands = ["ip link set lo up"]
    commands += [f"ip address add {each}/128 dev lo nodad" for each in addresses]
    apart = ("unshare", "--net", "sh", "-c", f'{" && ".join(commands)} && exec "$0" "$@"')
    with opened(tmp_path, *apart, stranger_connections=own, bind="::") as running:
        inside = ["nsenter", f"--net=/proc/{running.master}/ns/net", sys.executable, "-c", HOLD]
        networks = [" ".join(each) for each in NETWORKS]
        done = ended([*inside, str(running.port), str(3 * own), *networks])
        assert done.returncode == 0, done.stderr
        answered = Counter(done.stdout.splitlines())
        assert answered == {f"{network}: HTTP/1.1 503": own for network in networks}


def test_a_client_with_a_key_has_more_places_than_a_stranger(
    running: Running, engine: FakeServer
) -> None:
    """As a gateway has, or Prometheus: what they ask from is not known beforehand."""
    engine.pause = 0
    first_token(running.client(CLIENT), KEYED)
    held = [running.client(CLIENT) for _ in range(SETTINGS["max_connections"] // 4)]
    assert len(held) > SETTINGS["stranger_connections"]
    for client in held:
        client.request("GET", "/v1/models", headers=KEYED)
        assert client.getresponse().read()
    for client in held:
        client.close()


@pytest.mark.parametrize("kind", ["silent", "garbage", "page"])
def test_the_log_tells_of_an_attack_and_is_not_flooded(running: Running, kind: str) -> None:
    config = running.root / "door" / "door.cfg"
    config.write_text(
        config.read_text().replace("timeout http-request 10s", "timeout http-request 1s")
    )
    running.reload()
    with attack(running.port, kind) as under_way:
        until(lambda: len(hostile_lines(running)) >= SETTINGS["stranger_connections"])
    assert len(hostile_lines(running)) <= OFTEN
    metrics = running.ask("GET", "/metrics/door")[1]["text"]
    (refused,) = re.findall(r'denied_connections_total{proxy="door"} (\d+)', metrics)
    assert int(refused) >= under_way.tried - OFTEN


def test_requests_without_a_key_are_counted_on_a_kept_connection_too(
    running: Running, engine: FakeServer
) -> None:
    stranger = running.client(HOSTILE)
    found = []
    for number in range(2 * OFTEN):
        stranger.request("GET", "/health" if number % 2 else "/v1/models")
        answer = stranger.getresponse()
        found.append((answer.status, json.loads(answer.read() or b"{}")))
    assert {status for status, _ in found[:OFTEN]} == {200, 401}
    status, said = found[-1]
    assert (status, said["error"]["code"]) == (429, "too_many_requests")
    assert len(hostile_lines(running)) <= OFTEN
    # Who shows a key meanwhile is let in.
    stranger.request("GET", "/v1/models", headers=KEYED)
    assert stranger.getresponse().status == 200
    assert engine.paths["/v1/models"] == 1


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_no_body_but_on_post(running: Running, engine: FakeServer, method: str) -> None:
    page = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}
    for path in ("/health", "/v1/models"):
        if method == "OPTIONS" and path == "/health":
            continue
        for key, size in ((KEY, 1), (None, 1000000)):
            head = {**page, "Content-Length": str(size)}
            status, said, _ = running.ask(method, path, key, b"", **head)
            assert status == 413
            assert method == "HEAD" or said["error"]["message"] == "Only POST takes a body."
        assert running.status(method, path, KEY, **page, **{"Content-Length": "0"}) == 200
    assert engine.paths["/v1/models"] == 1


def test_tls_offers_what_is_authenticated_and_forgotten(
    running: Running, tls: Callable[[], http.client.HTTPSConnection]
) -> None:
    """Ciphers with AEAD, keys of each session's own, and no ticket that is worth keeping."""

    def handshake(*options: str) -> str:
        return ended(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{running.port}", *options]
        ).stdout

    for suite in ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"):
        said = handshake("-tls1_2", "-cipher", suite)
        assert f"Cipher is {suite}" in said
        assert "TLS session ticket:" not in said
    assert "Cipher is TLS_" in handshake("-tls1_3")
    for options in (
        ("-tls1_2", "-cipher", "ALL:!ECDHE+AESGCM:!ECDHE+CHACHA20:@SECLEVEL=0"),
        ("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"),
        ("-tls1", "-cipher", "ALL:@SECLEVEL=0"),
    ):
        assert "Cipher is (NONE)" in handshake(*options)
