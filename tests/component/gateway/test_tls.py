"""The gateway behind a door that shows a certificate of the site's own authority."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.settings import Settings
from sparkwright.door.certificates import server_certificate
from sparkwright.door.gateway.gateway import BEHIND
from tests.clock import patience
from tests.component.door.running import haproxy
from tests.component.servers import free_port
from tests.makers.door import plan
from tests.makers.gateway import KEYS
from tests.makers.gateway_clients import requests
from tests.makers.gateway_replicas import Door
from tests.makers.gateway_running import opened

pytestmark = haproxy
Secured = tuple[int, ssl.SSLContext]


@pytest.fixture(scope="module")
def secured(
    started: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """The port of the gateway's door, and what trusts it."""
    tls = Settings(tls="own", tls_names=("llm.lan",))
    fleet = tmp_path_factory.mktemp("fleet") / "sparks.yaml"
    shown = server_certificate(Fleet(fleet, {}, {}), tls, "gateway", ["gateway"])
    port, folder = free_port(), started[1].parent
    door = plan(port, keys=KEYS, behind=BEHIND, certificate=shown)
    with opened(folder, folder / "secured", door):
        yield port, ssl.create_default_context(cafile=fleet.with_suffix(".tls") / "ca.crt")


def request(port: int, trust: ssl.SSLContext | None, path: str, key: str, **body: object) -> bytes:
    """Ask it; what came, with a status of 200."""
    where = ("127.0.0.1", port)
    client = (
        http.client.HTTPSConnection(*where, timeout=patience(), context=trust)
        if trust
        else http.client.HTTPConnection(*where, timeout=patience())
    )
    head = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        client.request("POST", path, json.dumps(body), head)
        answer = client.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content
    finally:
        client.close()


@pytest.mark.parametrize(
    ("path", "stream"),
    [("/v1/chat/completions", True), *((path, False) for path in requests(stream=False))],
)
def test_whoever_trusts_the_authority_is_answered(
    url: str, secured: Secured, doors: list[Door], path: str, stream: bool
) -> None:
    port, trust = secured
    body = requests(stream)[path]
    assert b"four" in request(port, trust, path, KEYS[1], **body)
    ((_, asked),) = doors[0].asked + doors[1].asked
    assert asked["model"] == "tiny"
    with pytest.raises(AssertionError, match="invalid_api_key"):
        request(port, trust, path, "sk-wrong", **body)


def test_nothing_goes_in_the_clear_or_to_one_who_knows_another_authority(
    url: str, secured: Secured, doors: list[Door]
) -> None:
    port, _ = secured
    path, body = next(iter(requests(stream=False).items()))
    with pytest.raises((http.client.HTTPException, OSError)):
        request(port, None, path, KEYS[1], **body)
    with pytest.raises(ssl.SSLCertVerificationError):
        request(port, ssl.create_default_context(), path, KEYS[1], **body)
    assert [door.asked for door in doors] == [[], []]
    # Without TLS its other door goes on.
    plain = urlsplit(url).port
    assert plain
    assert b"four" in request(plain, None, path, KEYS[1], **body)
