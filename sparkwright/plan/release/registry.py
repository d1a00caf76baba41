"""Images on their registries, read by the HTTP API v2 of registries."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from urllib.parse import urlencode, urlsplit
from urllib.request import parse_http_list, parse_keqv_list

from requests import Response

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import parse
from sparkwright.plan.release.lock import ImageLock
from sparkwright.plan.release.registry_login import (
    RegistryLogin,
    config_path,
    login_of,
    registry_of,
)
from sparkwright.plan.release.release import repository
from sparkwright.plan.release.web import (
    NO_HEADERS,
    Headers,
    WebAnswer,
    WebClient,
    origin,
    unexpected,
)

# The registry's names of the processors of `uname -m`.
_ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


def registry_architecture(arch: str) -> str:
    """Return the registry's name of a processor that `uname -m` prints."""
    return _ARCHITECTURES.get(arch, arch)


def content_digest(content: bytes) -> str:
    """Return the digest by which a registry names a content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class RegistryImage:
    """An image on its registry, or, by another name, on a mirror.

    Requests are anonymous until the registry asks for more; a login goes to the registry that it is
    for, and to the token server that this one names.
    """

    def __init__(self, reference: str, client: WebClient, name: str = "") -> None:
        name = name or reference
        self.reference = reference if name == reference else f"{reference} (as {name})"
        self.client = client
        self._authorization: Headers = NO_HEADERS
        self._login: RegistryLogin | None = None
        place = repository(name)
        self.version = name[len(place) + 1 :]
        self.registry, path = registry_of(place)
        host = "registry-1.docker.io" if self.registry == "docker.io" else self.registry
        self.url = f"{_scheme(host)}://{host}/v2/{path}"

    def lock(self, architecture: str) -> ImageLock:
        """Return what a lock has of it, on a processor by the registry's name."""
        found = self.manifests(architecture)
        manifest = json.loads(found[-1])
        data = {
            "digest": content_digest(found[0]),
            "config": manifest["config"]["digest"],
            "size": sum(layer["size"] for layer in manifest["layers"]),
        }
        return parse(ImageLock, data, self.reference)

    def manifests(self, architecture: str) -> list[bytes]:
        """Return its manifest for a processor, after the index that names it, if there is one."""
        top = self._get("manifests", self.version)
        told = top.headers.get("Docker-Content-Digest", content_digest(top.content))
        self._check(top.content, self.version if self.version.startswith("sha256:") else told)
        manifest = top.json()
        if "manifests" not in manifest:
            config = self._get("blobs", manifest["config"]["digest"]).json()
            self._platform([(config, "")], architecture)
            return [top.content]
        offered = [(entry["platform"], entry["digest"]) for entry in manifest["manifests"]]
        chosen = self._platform(offered, architecture)
        content = self._get("manifests", chosen).content
        self._check(content, chosen)
        return [top.content, content]

    @contextmanager
    def blob(self, digest: str, begin: int) -> Iterator[Response]:
        """Give a registry's answer with a part of the image, from a byte on."""
        if not self._authorization:
            # Whoever asks for the manifest gets a token, where one is needed.
            self._get("manifests", self.version)
        ranges = {"Range": f"bytes={begin}-"} if begin else {}
        headers = {**ranges, **self._authorization}
        with self.client.opened(f"{self.url}/blobs/{digest}", headers) as response:
            if response.status_code not in (200, 206):
                # Tokens last for minutes, layers take longer.
                self._authorization = NO_HEADERS
                raise self._error(f"HTTP status {response.status_code} for {digest}", "its content")
            yield response

    def _platform(self, offered: list[tuple[dict[str, str], str]], architecture: str) -> str:
        """Return the digest that is offered for a processor."""
        digests = {f"{each['os']}/{each['architecture']}": digest for each, digest in offered}
        if (wanted := f"linux/{architecture}") not in digests:
            raise self._error(f"an image for {', '.join(sorted(digests))}", f"one for {wanted}")
        return digests[wanted]

    def _check(self, content: bytes, named: str) -> None:
        if (digest := content_digest(content)) != named:
            raise self._error(f"content of digest {digest}", f"{named}, as it was named")

    def _get(self, kind: str, version: str) -> WebAnswer:
        answer = self._request(kind, version)
        challenge = answer.headers.get("WWW-Authenticate", "")
        if answer.status == 401 and challenge:
            # A host to which the registry has redirected gets no login.
            if origin(answer.url) == origin(self.url):
                self._login = login_of(self.registry)
            self._authorization = {"Authorization": self._answer(challenge)}
            answer = self._request(kind, version)
        match answer.status:
            case 200:
                return answer
            case 401 | 403:
                raise self._no_access()
            case 404:
                raise self._error("no such image", "a name and tag that the registry has")
            case status:
                raise self._error(f"HTTP status {status}", "an answer; try again later")

    def _request(self, kind: str, version: str) -> WebAnswer:
        accepted = {"Accept": ", ".join(_MANIFESTS)} if kind == "manifests" else {}
        return self.client.get(f"{self.url}/{kind}/{version}", {**accepted, **self._authorization})

    def _answer(self, challenge: str) -> str:
        """Return the authorization by which a registry's challenge is answered."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "bearer":
            return f"Bearer {self._token(rest)}"
        if scheme.lower() != "basic" or self._login is None:
            raise self._no_access()
        return self._login.basic

    def _token(self, challenge: str) -> str:
        """Fetch the token that a registry gives for a login, or to anonymous callers."""
        fields = parse_keqv_list(parse_http_list(challenge))
        query = {key: each for key, each in fields.items() if key in ("service", "scope")}
        realm, login = fields["realm"], self._login
        if login and urlsplit(realm).scheme != "https" and self.url.startswith("https:"):
            found = f"the token server {realm[:200]}, which would get the login unencrypted"
            raise self._error(found, "one by https, as the registry is")
        headers = {"Authorization": login.basic} if login else NO_HEADERS
        joint = "&" if "?" in realm else "?"
        answer = self.client.get(f"{realm}{joint}{urlencode(query)}", headers)
        if answer.status in (400, 401, 403):
            raise self._no_access()
        if answer.status != 200:
            found = f"HTTP status {answer.status} of the token server"
            raise self._error(found, "a token; try again later")
        content = answer.json()
        return str(content.get("token") or content["access_token"])

    def _no_access(self) -> PlanError:
        found, login = "no access", self._login
        expected = (
            f"an image that anyone may pull, or a login for {self.registry} in {config_path()}, of "
            "which it has none"
        )
        if login:
            found += f" by the login of {login.user} ({login.source})"
            expected = f"one that {login.registry} takes, for an account that may pull this image"
        return self._error(found, f"{expected}: docker login {self.registry}, on this machine")

    def _error(self, found: str, expected: str) -> PlanError:
        return unexpected(self.reference, found, expected)


def _scheme(host: str) -> str:
    """Return http for a bare address and for this machine, as in a lab; https for a name."""
    name = host.partition(":")[0]
    try:
        return "http" if name == "localhost" or ip_address(name) else "https"
    except ValueError:
        return "https"
