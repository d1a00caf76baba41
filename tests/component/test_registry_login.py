"""Private registries: Docker's logins of this machine, and who gets them.

The registries are Debian's docker-registry, which asks for a password or for a token; the servers
that would like to have somebody else's login are ours.
"""

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding

from sparkwright.common.errors import PlanError
from sparkwright.plan.release.registry import RegistryImage
from sparkwright.plan.release.registry_login import login_of
from sparkwright.plan.release.resolve import resolve_image
from sparkwright.plan.release.web import WebClient
from tests.component.servers import QuietHandler, serving
from tests.lab import registry
from tests.lab.registry import PASSWORD, USER
from tests.makers.liar import Liar, lying
from tests.makers.registry import INDEX, push
from tests.programs import script

NAME = "lab/private"
ARCH = "x86_64"


@pytest.fixture(autouse=True)
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Docker's configuration of whoever runs this: none so far."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    (tmp_path / "docker").mkdir()
    login_of.cache_clear()
    return tmp_path / "docker/config.json"


def auth(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def log_in(docker: Path, server: str, password: str = PASSWORD) -> None:
    docker.write_text(json.dumps({"auths": {server: auth(USER, password)}}))


def refusal(image: str, **arguments: Any) -> str:
    with pytest.raises(PlanError) as caught:
        resolve_image(image, ARCH, **arguments)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


class TestConfiguration:
    @pytest.mark.parametrize("key", ["ghcr.io", "https://ghcr.io", "https://ghcr.io/v2/"])
    def test_a_password_in_the_file(self, docker: Path, key: str) -> None:
        log_in(docker, key)
        found = login_of("ghcr.io")
        assert found
        assert (found.user, found.secret, found.source) == (USER, PASSWORD, str(docker))
        assert login_of("ghcr.io.example.org") is None
        assert login_of("docker.io") is None

    def test_docker_hub_has_a_key_of_its_own(self, docker: Path) -> None:
        assert login_of("ghcr.io") is None
        log_in(docker, "https://index.docker.io/v1/")
        assert login_of("docker.io")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("{", "found no JSON object; expected Docker's config.json: mend it"),
            ("[]", "found no JSON object"),
            ("[" * 100_000, "found no JSON object"),
            (" " * 2_000_000 + "{}", "found more than 1,048,576 bytes"),
            ('{"auths": []}', ""),
            ('{"auths": [1]}', "auths: found no JSON object"),
            ('{"auths": {"ghcr.io": 1}}', "auths.ghcr.io: found no JSON object"),
            ('{"auths": {"ghcr.io": {"auth": "***"}}}', "found no user and password in base64"),
            ('{"auths": {"ghcr.io": {"auth": "eA=="}}}', "docker login ghcr.io, on this machine"),
            ('{"credsStore": "../x"}', "found the credential helper '../x'; expected the end of a"),
            ('{"credsStore": "none-of-these"}', "docker-credential-none-of-these: found no such"),
        ],
    )
    def test_a_damaged_file(self, docker: Path, text: str, expected: str) -> None:
        docker.write_text(text)
        if not expected:
            assert login_of("ghcr.io") is None
            return
        with pytest.raises(PlanError) as caught:
            login_of("ghcr.io")
        assert str(caught.value).startswith(str(docker))
        assert expected in str(caught.value)


Helper = Callable[[str, str], None]


class TestHelper:
    @pytest.fixture
    def helper(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Helper:
        """Put a script into PATH as docker-credential-NAME."""
        folder = tmp_path / "bin"
        folder.mkdir()
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

        def put(name: str, says: str) -> None:
            file = folder / f"docker-credential-{name}"
            script(file, f"#!/bin/sh\n{says}\n")

        return put

    SAYS = 'read server; [ "$1" = get ] && echo "{{\\"ServerURL\\": \\"$server\\", {rest}}}"'

    def test_it_is_asked_for_the_registry_by_standard_input(
        self, docker: Path, helper: Helper, tmp_path: Path
    ) -> None:
        rest = f'\\"Username\\": \\"of $server\\", \\"Secret\\": \\"{PASSWORD}\\"'
        helper("pass", self.SAYS.format(rest=rest))
        helper("one", f'echo "$@" > {tmp_path}/words; ' + self.SAYS.format(rest=rest))
        docker.write_text(json.dumps({"credsStore": "pass", "credHelpers": {"a.io": "one"}}))
        found = [login_of(each) for each in ("a.io", "b.io:5000", "docker.io")]
        assert [(each.user, each.source) for each in found if each] == [
            ("of a.io", "docker-credential-one"),
            ("of b.io:5000", "docker-credential-pass"),
            ("of https://index.docker.io/v1/", "docker-credential-pass"),
        ]
        assert (tmp_path / "words").read_text() == "get\n"

    def test_one_that_has_none_is_no_error(self, docker: Path, helper: Helper) -> None:
        """An identity token is no login, either."""
        rest = '\\"Username\\": \\"<token>\\", \\"Secret\\": \\"tok\\"'
        helper("token", self.SAYS.format(rest=rest))
        helper("pass", "echo 'credentials not found in native keychain'; exit 1")
        logins = {"a.io": auth(USER, PASSWORD), "b.io": {}}
        config = {"credsStore": "pass", "credHelpers": {"c.io": "token"}, "auths": logins}
        docker.write_text(json.dumps(config))
        found = login_of("a.io")
        assert found
        assert found.source == str(docker)
        assert login_of("b.io") is None
        assert login_of("c.io") is None

    @pytest.mark.parametrize(
        ("script", "expected"),
        [
            (f"echo {PASSWORD}; exit 3", "found exit status 3; expected a login for a.io: see"),
            (f"echo {PASSWORD}", "found no login in its answer"),
            ('echo "{}"', "found no login in its answer"),
            ("sleep 60", "found no answer in 0.2 s"),
        ],
    )
    def test_one_that_fails(
        self,
        docker: Path,
        helper: Helper,
        monkeypatch: pytest.MonkeyPatch,
        script: str,
        expected: str,
    ) -> None:
        helper("pass", f"exec 2>/dev/null; {script}")
        docker.write_text('{"credsStore": "pass"}')
        if "sleep" in script:
            monkeypatch.setattr("sparkwright.plan.release.registry_login._PATIENCE", 0.2)
        with pytest.raises(PlanError) as caught:
            login_of("a.io")
        assert f"{docker}: docker-credential-pass: {expected}" in str(caught.value)
        assert "`echo a.io | docker-credential-pass get`" in str(caught.value)
        assert PASSWORD not in str(caught.value)


class Private(QuietHandler):
    """The token server of a registry, which lets in who has the password.

    Attributes:
        requests: path and Authorization of each request.
    """

    requests: ClassVar[list[tuple[str, str]]]
    signing: ClassVar[ec.EllipticCurvePrivateKey]
    certificate: ClassVar[x509.Certificate]

    def do_GET(self) -> None:
        given = self.headers["Authorization"] or ""
        self.requests.append((self.path, given))
        known = given == f"Basic {auth(USER, PASSWORD)['auth']}"
        # Like public ones: an anonymous caller gets a token that opens nothing here.
        self.send_response(200 if known or not given else 401)
        self.end_headers()
        if known or not given:
            scope = parse_qs(urlsplit(self.path).query)["scope"][0] if known else ""
            self.wfile.write(json.dumps({"token": self._token(scope)}).encode())

    def _token(self, scope: str) -> str:
        access = []
        if scope:
            kind, name, actions = scope.split(":")
            access = [{"type": kind, "name": name, "actions": actions.split(",")}]
        now = int(time.time())
        der = self.certificate.public_bytes(Encoding.DER)
        head = {"typ": "JWT", "alg": "ES256", "x5c": [base64.b64encode(der).decode()]}
        body = {"iss": "lab", "sub": "", "aud": "lab", "exp": now + 300, "nbf": now - 60}
        parts = [head, body | {"iat": now, "jti": str(now), "access": access}]
        signed = ".".join(plain(json.dumps(part).encode()) for part in parts)
        r, s = decode_dss_signature(self.signing.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{plain(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def plain(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


needs_registry = pytest.mark.skipif(
    not shutil.which("docker-registry"), reason="needs Debian's docker-registry"
)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The storage of a registry that has one image."""
    folder = tmp_path_factory.mktemp("registry")
    with registry.serving(folder, writable=True) as url:
        push(f"{url}/v2/{NAME}", INDEX)
    return folder


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A token server; its address."""
    key, now, hour = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), timedelta(hours=1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "lab")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - hour, now + hour)
    own = {"requests": [], "signing": key, "certificate": builder.sign(key, hashes.SHA256())}
    for attribute, value in own.items():
        monkeypatch.setattr(Private, attribute, value, raising=False)
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Private)) as address:
        yield address


@pytest.fixture(params=["password", "token"])
def private(
    request: pytest.FixtureRequest, storage: Path, tokens: str, tmp_path: Path
) -> Iterator[str]:
    """A private registry, by a password of its own or by tokens of another server; HOST:PORT."""
    if request.param == "password":
        auth = registry.by_password(tmp_path)
    else:
        bundle = tmp_path / "bundle.pem"
        bundle.write_bytes(Private.certificate.public_bytes(Encoding.PEM))
        auth = {
            "REGISTRY_AUTH": "token",
            "REGISTRY_AUTH_TOKEN_REALM": f"http://{tokens}/token",
            "REGISTRY_AUTH_TOKEN_SERVICE": "lab",
            "REGISTRY_AUTH_TOKEN_ISSUER": "lab",
            "REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE": str(bundle),
        }
    with registry.serving(storage, auth=auth) as url:
        yield url.removeprefix("http://")


@needs_registry
class TestPrivateRegistry:
    def test_the_right_login(self, private: str, docker: Path) -> None:
        log_in(docker, private)
        found = resolve_image(f"{private}/{NAME}:1", ARCH)
        assert found.digest.startswith("sha256:")
        assert PASSWORD not in found.model_dump_json()

    def test_a_wrong_login(self, private: str, docker: Path) -> None:
        log_in(docker, private, "another")
        said = refusal(f"{private}/{NAME}:1")
        found = f"{private}/{NAME}:1: found no access by the login of {USER} ({docker}); expected"
        assert said.startswith(found)
        assert f"one that {private} takes" in said
        assert f"docker login {private}, on this machine" in said
        assert "another" not in said

    def test_no_login(self, private: str, docker: Path) -> None:
        log_in(docker, "registry.example.org")
        image = f"{private}/{NAME}:1"
        said = refusal(image)
        assert said.startswith(f"{image}: found no access; expected an image that anyone")
        assert f"a login for {private} in {docker}, of which it has none" in said
        assert f"docker login {private}, on this machine" in said

    def test_a_mirror_gets_its_own_login_and_gives_the_same(
        self, private: str, docker: Path
    ) -> None:
        name, mirrors = f"ghcr.io/{NAME}:1", {"ghcr.io": private}
        log_in(docker, "ghcr.io")
        expected = "found no access; expected an image that anyone may pull, or a login for "
        assert f"{expected}{private}" in refusal(name, mirrors=mirrors)
        log_in(docker, private)
        login_of.cache_clear()
        found = resolve_image(name, ARCH, mirrors)
        assert found == resolve_image(f"{private}/{NAME}:1", ARCH)


@needs_registry
@pytest.mark.parametrize("private", ["token"], indirect=True)
def test_the_login_goes_to_the_token_server_and_no_registry(private: str, docker: Path) -> None:
    log_in(docker, private)
    resolve_image(f"{private}/{NAME}:1", ARCH)
    ((path, given), *_) = Private.requests
    assert given == f"Basic {auth(USER, PASSWORD)['auth']}"
    assert parse_qs(urlsplit(path).query)["scope"] == [f"repository:{NAME}:pull"]


class TestWhoGetsALogin:
    """A login reaches the registry that it is for and the token server that it names alone."""

    @pytest.fixture
    def two(self) -> Iterator[tuple[str, str]]:
        """Two servers on one machine, to a client two hosts, that note who asks for what."""
        self.seen: list[tuple[str, str]] = []
        self.answers: dict[str, tuple[int, dict[str, str]]] = {}

        def answer(liar: Liar) -> None:
            self.seen.append((liar.headers["Host"], liar.headers["Authorization"] or ""))
            status, headers = self.answers.get(urlsplit(liar.path).path, (404, {}))
            liar.head(status, Content_Length=0, **headers)

        with lying(answer) as (_, one), lying(answer) as (_, other):
            yield one.removeprefix("http://"), other.removeprefix("http://")

    MANIFEST = f"/v2/{NAME}/manifests/1"

    def logins(self, host: str) -> list[str]:
        return [given for at, given in self.seen if at == host and given]

    def test_no_host_to_which_a_registry_sends(self, two: tuple[str, str], docker: Path) -> None:
        one, other = two
        log_in(docker, one)
        self.answers["/elsewhere"] = (401, {"WWW_Authenticate": "Basic realm=x"})
        self.answers[self.MANIFEST] = (307, {"Location": f"http://{other}/elsewhere"})
        refusal(f"{one}/{NAME}:1")
        assert any(at == other for at, _ in self.seen)
        assert self.logins(other) == []
        assert self.logins(one) == []

    def test_no_host_to_which_a_token_server_sends(
        self, two: tuple[str, str], docker: Path
    ) -> None:
        one, other = two
        challenge = f'Bearer realm="http://{one}/token",service="lab",scope="s"'
        self.answers[self.MANIFEST] = (401, {"WWW_Authenticate": challenge})
        self.answers["/token"] = (307, {"Location": f"http://{other}/elsewhere"})
        log_in(docker, one)
        refusal(f"{one}/{NAME}:1")
        assert self.logins(one)
        assert self.logins(other) == []

    def test_no_token_server_without_tls(self, two: tuple[str, str], docker: Path) -> None:
        _, other = two
        log_in(docker, "a.io")
        image = RegistryImage("a.io/x:1", WebClient())
        image._login = login_of("a.io")
        expected = (
            f"found the token server http://{other}/token, which would get the login unencrypted; "
            "expected one by https, as the registry is"
        )
        with pytest.raises(PlanError, match=expected):
            image._token(f'realm="http://{other}/token",service="lab",scope="s"')
        assert self.seen == []

    def test_no_challenge_that_asks_for_something_else(
        self, two: tuple[str, str], docker: Path
    ) -> None:
        one, _ = two
        log_in(docker, one)
        self.answers[self.MANIFEST] = (401, {"WWW_Authenticate": "Negotiate"})
        assert f"found no access by the login of {USER}" in refusal(f"{one}/{NAME}:1")
        assert self.logins(one) == []
