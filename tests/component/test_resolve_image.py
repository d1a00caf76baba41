"""An image's name and parts, asked of real registries on this machine's loopback."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from requests import Session

from sparkwright.artifacts.bundle.downloads import fetch_image, fetch_part
from sparkwright.common.errors import PlanError
from sparkwright.plan.release.registry import RegistryImage
from sparkwright.plan.release.resolve import resolve_image
from sparkwright.plan.release.web import WebClient
from tests.component.servers import QuietHandler, serving
from tests.makers.registry import (
    BLOBS,
    IMAGES,
    INDEX,
    PLATFORMS,
    SINGLE,
    digest,
    locked,
    only_loopback,
    registry,
)

__all__ = ["only_loopback", "registry"]


@pytest.mark.parametrize(("arch", "name"), [("aarch64", "arm64"), ("x86_64", "amd64")])
def test_an_index_is_one_digest_and_a_size_for_each_platform(
    registry: str, arch: str, name: str
) -> None:
    expected = locked(INDEX, name)
    assert resolve_image(f"{registry}/lab/many:1", arch) == expected
    assert resolve_image(f"{registry}/lab/many@{digest(INDEX)}", arch) == expected


@pytest.mark.parametrize(
    ("image", "arch", "expected"),
    [
        ("lab/one:1", "x86_64", "found an image for linux/arm64; expected one for linux/amd64"),
        ("lab/many:1", "riscv64", "image for linux/amd64, linux/arm64; expected one for linux/ri"),
        ("lab/none:1", "aarch64", "found no such image; expected a name and tag that the registry"),
    ],
)
def test_an_image_that_cannot_be_used(registry: str, image: str, arch: str, expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        resolve_image(f"{registry}/{image}", arch)
    assert str(caught.value).startswith(f"{registry}/{image}: found ")
    assert expected in str(caught.value)


def test_the_proxy_of_this_machine_is_used_and_its_exceptions_are_kept(
    registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Proxy(QuietHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(502)

    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("no_proxy", raising=False)
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Proxy)) as address:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:proxy-s3cret@{address}")
        with pytest.raises(PlanError):
            resolve_image(f"{registry}/lab/one:1", "aarch64")
        assert {*asked} == {f"http://{registry}/v2/lab/one/manifests/1"}
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        asked.clear()
        assert resolve_image(f"{registry}/lab/one:1", "aarch64") == locked(SINGLE, "arm64")
        assert asked == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("http://me:s3cret@127.0.0.1:1", "127.0.0.1:1"),
        ("socks5://me:s3cret@127.0.0.1:1080", "127.0.0.1:1080"),
        ("socks4://127.0.0.1:1080", "socks4://127.0.0.1:1080"),
        ("ftp://proxy.lan", "ftp://proxy.lan"),
        ("http://proxy.lan:port", "http://proxy.lan:port"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named_without_its_login(
    value: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", value)
    monkeypatch.setenv("NO_PROXY", "hub.lan")
    with pytest.raises(PlanError) as caught:
        resolve_image("10.0.0.1:5000/lab/one:1", "aarch64")
    said = str(caught.value)
    assert "no answer from the registry" in said
    assert said.endswith(f"; this machine uses HTTP_PROXY={shown}, NO_PROXY=hub.lan")
    assert "s3cret" not in said


def test_an_authority_of_the_system_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=lab "
    line += "-keyout key.pem -out ca.pem -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(line.split(), cwd=tmp_path, check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server) as address:
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            WebClient().get(f"https://{address}/token")
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert WebClient().get(f"https://{address}/token").status == 400


class Guarded(QuietHandler):
    """A registry that asks for a token, as public ones do, and gives one to anyone who asks.

    Attributes:
        login: Besides none, the only Authorization that gets a token.
        opens: The Authorization that opens the registry.
        given: What the registry itself got.
    """

    protocol_version = "HTTP/1.1"
    login: ClassVar[str] = ""
    opens: ClassVar[str] = "Bearer token of "
    given: ClassVar[set[str]] = set()
    manifest: ClassVar[bytes] = INDEX
    told: ClassVar[str | None] = None

    def do_GET(self) -> None:
        address = self.headers["Host"]
        url, given = urlsplit(self.path), self.headers["Authorization"] or ""
        if url.path == "/token":
            self._token(parse_qs(url.query), given)
            return
        self.given.add(given)
        if given != self.opens:
            scope = "repository:lab/many:pull"
            realm = f'Bearer realm="http://{address}/token",service="lab",scope="{scope}"'
            self._send(401, b"{}", {"WWW-Authenticate": realm})
        elif url.path.startswith("/v2/lab/many/manifests/sha256:"):
            self._send(200, SINGLE)
        else:
            told = self.told or digest(self.manifest)
            self._send(200, self.manifest, {"Docker-Content-Digest": told})

    def _token(self, query: dict[str, list[str]], given: str) -> None:
        if given not in ("", self.login):
            self._send(401, b"{}")
        elif query == {"service": ["lab"], "scope": ["repository:lab/many:pull"]}:
            self._send(200, json.dumps({"token": f"token of {given}"}).encode())
        else:
            self._send(400, b"{}")

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # A login for the registry that must not be used: it would be refused, and it is not ours.
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Guarded)) as address:
        yield f"{address}/lab/many:1"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"opens": "another"}, "found no access; expected an image that anyone may pull"),
        ({"told": digest(b"else")}, f"found content of digest {digest(INDEX)}; expected"),
        ({"manifest": b"<html>"}, "found an answer that is no manifest (JSONDecodeError("),
        ({"manifest": b"{}"}, "found an answer that is no manifest (KeyError('config'))"),
        ({"manifest": b"[]"}, "found an answer that is no manifest"),
        ({"manifest": b'{"manifests": [1]}'}, "found an answer that is no manifest"),
    ],
)
def test_a_registry_that_answers_something_else(
    guarded: str, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], expected: str
) -> None:
    for name, value in changes.items():
        monkeypatch.setattr(Guarded, name, value)
    with pytest.raises(PlanError) as caught:
        resolve_image(guarded, "aarch64")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("ubuntu:24.04", "https://registry-1.docker.io/v2/library/ubuntu/manifests/24.04"),
        ("owner/name:1", "https://registry-1.docker.io/v2/owner/name/manifests/1"),
        ("docker.io/owner/name:1", "https://registry-1.docker.io/v2/owner/name/manifests/1"),
        ("ghcr.io/owner/name:1", "https://ghcr.io/v2/owner/name/manifests/1"),
        ("example.org:5000/name:1", "https://example.org:5000/v2/name/manifests/1"),
        ("10.213.0.1:5000/a/b:1", "http://10.213.0.1:5000/v2/a/b/manifests/1"),
        ("localhost:5000/a:1", "http://localhost:5000/v2/a/manifests/1"),
        (f"a/b@{digest(b'')}", f"https://registry-1.docker.io/v2/a/b/manifests/{digest(b'')}"),
    ],
)
def test_where_a_name_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, reference: str, url: str
) -> None:
    def refuse(_: Session, asked: str, **__: object) -> None:
        raise requests.ConnectionError(asked)

    monkeypatch.setattr(Session, "get", refuse)
    with pytest.raises(PlanError) as caught:
        resolve_image(reference, "aarch64")
    assert f"({url})" in str(caught.value)


LAYER = PLATFORMS["arm64"]
DIGEST = digest(LAYER)


@pytest.fixture
def image(registry: str) -> RegistryImage:
    return RegistryImage(f"{registry}/lab/many@{digest(INDEX)}", WebClient())


def fetch(image: RegistryImage, place: Path) -> list[int]:
    return list(fetch_part(image, DIGEST, len(LAYER), place))


@pytest.mark.parametrize(
    ("name", "top", "kind", "architecture"),
    [("many", INDEX, "index", "amd64"), ("one", SINGLE, "manifest", "arm64")],
)
def test_all_parts_of_an_image_for_one_processor(
    registry: str, tmp_path: Path, name: str, top: bytes, kind: str, architecture: str
) -> None:
    arch = {"amd64": "x86_64", "arm64": "aarch64"}[architecture]
    reference = f"{registry}/lab/{name}@{digest(top)}"
    found = fetch_image(reference, arch, tmp_path)
    lock = locked(top, architecture)
    assert (found.top, found.config) == (lock.digest, lock.config)
    assert found.media_type == f"application/vnd.oci.image.{kind}.v1+json"
    contents = {(tmp_path / path).read_bytes() for path in found.blobs}
    expected = {top, IMAGES[architecture], BLOBS[lock.config], PLATFORMS[architecture]}
    assert contents == expected


def test_a_part_that_was_cut_off_goes_on_and_is_not_asked_for_again(
    image: RegistryImage, tmp_path: Path
) -> None:
    (tmp_path / "layer.part").write_bytes(LAYER[:4])
    asked: list[int] = []
    given = image.blob
    image.blob = lambda name, begin: (asked.append(begin), given(name, begin))[1]  # type: ignore[method-assign]
    assert fetch(image, tmp_path / "layer") == [len(LAYER)]
    assert asked == [4]
    assert (tmp_path / "layer").read_bytes() == LAYER
    image.url = "http://127.0.0.1:1"
    assert fetch(image, tmp_path / "layer") == []


def test_one_that_the_registry_lacks(
    image: RegistryImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkwright.artifacts.bundle.downloads._DELAYS", (0.01,))
    with pytest.raises(PlanError, match=r"HTTP status 404 .* run again, which goes on"):
        list(fetch_part(image, digest(b"another"), 7, tmp_path / "layer"))
