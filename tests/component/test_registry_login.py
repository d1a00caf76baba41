"""Private registries: Docker's logins, and who gets them; Debian's: tests/system/test_behind.py."""

import base64
import json
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.plan.release.registry import RegistryImage
from sparkwright.plan.release.registry_login import login_of
from sparkwright.plan.release.resolve import resolve_image
from sparkwright.plan.release.web import WebClient
from tests.component.servers import serving
from tests.component.test_resolve_image import Guarded
from tests.lab.registry import PASSWORD, USER
from tests.makers.liar import Liar, lying
from tests.makers.registry import INDEX, locked
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


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry that wants a token, which anyone gets; that of the login alone opens it."""
    login = f"Basic {auth(USER, PASSWORD)['auth']}"
    for name, value in {
        "given": set(),
        "login": login,
        "opens": f"Bearer token of {login}",
    }.items():
        monkeypatch.setattr(Guarded, name, value)
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Guarded)) as address:
        yield address


def test_the_login_goes_to_the_token_server_and_no_registry(guarded: str, docker: Path) -> None:
    image = f"{guarded}/lab/many:1"
    named, mirrors = "registry.example.org/lab/many:1", {"registry.example.org": guarded}
    log_in(docker, "registry.example.org")
    # A mirror gets its own login alone.
    assert f"or a login for {guarded} in" in refusal(named, mirrors=mirrors)
    said = refusal(image)
    assert said.startswith(f"{image}: found no access; expected an image that anyone")
    assert f"a login for {guarded} in {docker}, of which it has none" in said
    assert f"docker login {guarded}, on this machine" in said
    log_in(docker, guarded, "another")
    login_of.cache_clear()
    assert f"found no access by the login of {USER} ({docker})" in refusal(image)
    log_in(docker, guarded)
    login_of.cache_clear()
    Guarded.given.clear()
    assert resolve_image(image, "aarch64") == locked(INDEX, "arm64")
    assert Guarded.given == {"", Guarded.opens}
    assert resolve_image(named, "aarch64", mirrors) == locked(INDEX, "arm64")


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
