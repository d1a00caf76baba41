"""The gateway behind a door that shows a certificate of the site's own authority."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError

import pytest

from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.settings import Settings
from sparkwright.door.certificates import server_certificate
from sparkwright.door.gateway.gateway import BEHIND
from tests.component.door.running import haproxy
from tests.component.servers import free_port
from tests.makers.door import plan
from tests.makers.gateway import KEYS
from tests.makers.gateway_clients import ask, requests
from tests.makers.gateway_replicas import Door
from tests.makers.gateway_running import opened

pytestmark = haproxy
Secured = tuple[str, ssl.SSLContext]


@pytest.fixture(scope="module")
def secured(
    started: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """The URL of the gateway's door, and what trusts it."""
    tls = Settings(tls="own", tls_names=("llm.lan",))
    fleet = tmp_path_factory.mktemp("fleet") / "sparks.yaml"
    shown = server_certificate(Fleet(fleet, {}, {}), tls, "gateway", ["gateway"])
    port, folder = free_port(), started[1].parent
    door = plan(port, keys=KEYS, behind=BEHIND, certificate=shown)
    with opened(folder, folder / "secured", door):
        trust = ssl.create_default_context(cafile=fleet.with_suffix(".tls") / "ca.crt")
        yield f"https://127.0.0.1:{port}", trust


@pytest.mark.parametrize(
    ("path", "stream"),
    [("/v1/chat/completions", True), *((path, False) for path in requests(stream=False))],
)
def test_whoever_trusts_the_authority_is_answered(
    url: str, secured: Secured, doors: list[Door], path: str, stream: bool
) -> None:
    own, trust = secured
    body = requests(stream)[path]
    status, text = ask(own, path, trust=trust, **body)
    assert (status, "four" in text) == (200, True)
    ((_, asked),) = doors[0].asked + doors[1].asked
    assert asked["model"] == "tiny"
    status, text = ask(own, path, "sk-wrong", trust, **body)
    assert (status, "invalid_api_key" in text) == (401, True)


def test_nothing_goes_in_the_clear_or_to_one_who_knows_another_authority(
    url: str, secured: Secured, doors: list[Door]
) -> None:
    own, _ = secured
    path, body = next(iter(requests(stream=False).items()))
    with pytest.raises((HTTPException, OSError)):
        ask(own.replace("https", "http"), path, **body)
    with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(own, path, trust=ssl.create_default_context(), **body)
    assert [door.asked for door in doors] == [[], []]
    # Without TLS its other door goes on.
    assert ask(url, path, **body)[0] == 200
