"""Resolves names: asks the hub for commits and files, and the registry for digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from os import environ
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, parse_http_list, parse_keqv_list

from httpx2 import URL, Client, HTTPError, InvalidURL, Response, Timeout
from huggingface_hub import HfApi, constants, get_session, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import parse
from sparkwright.release.answers import LONGEST, MOST, Budget, TooMuch, in_time
from sparkwright.release.lock import CheckpointLock, ImageLock
from sparkwright.release.model_config import shape_of
from sparkwright.release.needed_files import Choice, needed
from sparkwright.release.registry_login import (
    RegistryLogin,
    login_of,
    mirrored,
    missing,
    refused,
    registry_of,
)
from sparkwright.release.release import repository

# With telemetry the client contacts the public hub, whatever the endpoint.
constants.HF_HUB_DISABLE_TELEMETRY = True
_CONFIG = "config.json"

# Seconds to connect, and between two packets.
_TIMEOUT = Timeout(30, connect=10)
# The errors of reading an answer that is not in the expected format.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)

# The registry's names of the processors of `uname -m`.
_ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


# Bytes of an index of shards that is read: what it names then has to be there. Of a larger one, as
# models of trillions of parameters have them, the names of the shards tell how many there are.
_LARGEST_INDEX = 8 << 20
BY_RULES = Choice()


def resolve_checkpoint(
    repo: str,
    revision: str,
    endpoint: str | None = None,
    token: str | None = None,
    choice: Choice = BY_RULES,
) -> CheckpointLock:
    """Ask the hub for a repository's commit and its day, its files, and the shape of its model.

    Arguments and errors are those of `resolve_with_config`.

    Example:
        >>> resolve_checkpoint("z-lab/Qwen3.6-35B-A3B-DFlash", "main").commit  # doctest: +SKIP
    """
    return resolve_with_config(repo, revision, endpoint, token, choice)[0]


def resolve_with_config(
    repo: str,
    revision: str,
    endpoint: str | None = None,
    token: str | None = None,
    choice: Choice = BY_RULES,
) -> tuple[CheckpointLock, dict[str, Any] | None]:
    """Ask the hub for what a lock has of a repository, and for its config.json.

    Args:
        revision: Branch, tag or commit.
        token: Of the caller; None = anonymous, whatever login this machine has.
        choice: Which of its files are needed.

    Returns:
        The lock's entry, and the content of ``config.json``; None if there is no such object.

    Raises:
        PlanError: No such repository or revision, no access, no answer, a malformed one, or one
            beyond the bounds of `release.answers`.
    """
    api = HfApi(endpoint=endpoint, token=token or False)
    where = f"{api.endpoint}: {repo}@{revision}"
    check_proxies()
    session = get_session()
    session.headers["Accept-Encoding"] = "identity"
    session.event_hooks = {**session.event_hooks, "response": [Budget().bound]}
    with _answers_of("Hub", "hub's", where, "hf_endpoint", "another hub (hf_endpoint)"):
        try:
            data, config = in_time(lambda: _checkpoint_data(api, repo, revision, choice))
        except GatedRepoError:
            found = "a token that has no access" if token else "no token"
            expected = "a token of an account that was granted access"
            raise _error(where, f"a gated repository and {found}", expected) from None
        except RepositoryNotFoundError:
            expected = "another name, or a token that may see it"
            raise _error(where, "no such repository", expected) from None
        except RevisionNotFoundError:
            raise _error(where, "no such revision", "a branch, tag or commit of it") from None
        except HfHubHTTPError as error:
            status = error.response.status_code
            expected = "a valid token" if status == 401 else "an answer; try again later"
            raise _error(where, f"HTTP status {status}", expected) from None
    data |= {"repo": repo, "revision": revision, "shape": shape_of(config or {})}
    return parse(CheckpointLock, data, where), config


@contextmanager
def _answers_of(server: str, kind: str, where: str, setting: str, other: str) -> Iterator[None]:
    """Turn errors of a server's answers into a PlanError.

    Args:
        server: "Hub" or "registry".
        kind: The expected kind of answer.
        where: Address and name that were requested.
        setting: What declares the address.
        other: Another source.
    """
    try:
        yield
    except TooMuch as error:
        bounds = f"at most {MOST:,} bytes within {LONGEST} s"
        raise _error(where, str(error), f"{bounds}: try again later, or take {other}") from None
    except (HTTPError, InvalidURL, OSError) as error:
        problem = f"no answer from the {server} ({error}); check the network and {setting}"
        raise PlanError(f"{where}: {problem}{_way()}") from None
    except _MALFORMED as error:
        expected = f"a {server.lower()}"
        raise _error(where, f"an answer that is no {kind} ({error!r})", expected) from None


def check_proxies() -> None:
    """Refuse a proxy of this machine that httpx cannot use, such as one of SOCKS.

    Raises:
        PlanError: With the variable that names it.
    """
    for name, url in getproxies().items():
        scheme, there, place = url.partition("://")
        try:
            usable = not there or URL(url).scheme in ("http", "https")
        except InvalidURL:
            usable = False
        if name in ("http", "https", "all") and not usable:
            # The name in small letters counts first.
            names = sorted((each for each in environ if environ[each] == url), reverse=True)
            variable = next((v for v in names if v.lower() == f"{name}_proxy"), f"{name}_proxy")
            raise PlanError(
                f"{variable}: found {scheme}://{place.rpartition('@')[2]}, a proxy that cannot be "
                f"used; expected http://HOST:PORT, or none: env -u {variable} before the command"
            )


def _way() -> str:
    """Return how this machine reaches the internet, for an error, without a proxy's login."""
    known = {name: url for name, url in getproxies().items() if url}
    if not known.keys() & {"http", "https", "all"}:
        return "; this machine uses no proxy (HTTPS_PROXY is not set)"
    shown = (
        f"{name.upper()}_PROXY={known[name].rpartition('@')[2]}"
        for name in ("http", "https", "all", "no")
        if name in known
    )
    return f"; this machine uses {', '.join(shown)}"


def _error(where: str, found: str, expected: str) -> PlanError:
    return PlanError(f"{where}: found {found}; expected {expected}")


def _checkpoint_data(
    api: HfApi, repo: str, revision: str, choice: Choice
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    info = api.model_info(repo, revision=revision, files_metadata=True, timeout=_TIMEOUT.read)
    if info.gated:
        # The metadata of a gated repository are public, its files are not.
        api.auth_check(repo)
    commit = str(info.sha)
    every = {sibling.rfilename: _file(sibling) for sibling in info.siblings or ()}
    sizes = {path: int(file["size"]) for path, file in every.items()}

    def shards(index: str) -> Collection[str] | None:
        if sizes[index] > _LARGEST_INDEX:
            return None
        return {*map(str, (_json(api, repo, commit, index) or {})["weight_map"].values())}

    found = needed(sizes, choice, shards, f"{repo}@{commit[:12]}")
    files = {path: file for path, file in every.items() if path in found.files}
    data: dict[str, Any] = {"commit": commit, "date": _day(api, repo, commit), "files": files}
    if left := sizes.keys() - files.keys():
        size = sum(sizes[path] for path in left)
        data["left_out"] = {"files": len(left), "bytes": size, "format": found.format}
    return data, _json(api, repo, commit, _CONFIG) if _CONFIG in every else None


def _day(api: HfApi, repo: str, commit: str) -> str | None:
    """Return the day of a commit, in UTC; the hub lists the commit with all earlier ones."""
    commits = api.list_repo_commits(repo, revision=commit)
    created = (each.created_at for each in commits if each.commit_id == commit)
    return next((moment.date().isoformat() for moment in created), None)


def _json(api: HfApi, repo: str, commit: str, path: str) -> dict[str, Any] | None:
    """Return the object in a file; None if it holds something else."""
    url = hf_hub_url(repo, path, revision=commit, endpoint=api.endpoint)
    answer = get_session().get(url, headers=build_hf_headers(token=api.token), timeout=_TIMEOUT)
    hf_raise_for_status(answer)
    try:
        content = json.loads(answer.content)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{repo}@{commit}: {path}: found {error}; expected JSON") from None
    return content if isinstance(content, dict) else None


def _file(sibling: RepoSibling) -> dict[str, Any]:
    if sibling.lfs:
        return {"size": sibling.lfs.size, "sha256": sibling.lfs.sha256}
    return {"size": sibling.size, "git": sibling.blob_id}


def resolve_image(
    reference: str, arch: str, mirrors: Mapping[str, str] = MappingProxyType({})
) -> ImageLock:
    """Ask a registry for an image's digest, and for its size on one platform.

    The digest is that of the index, if there is one: it identifies the image on every platform.

    Args:
        reference: Image with tag or digest, such as ``ghcr.io/owner/name:tag``.
        arch: Processor as ``uname -m`` prints it.
        mirrors: Registries to ask in the place of others, as the setting `registry_mirrors`.

    Raises:
        PlanError: No such image, none for the platform, no access, no answer, a malformed one, or
            one beyond the bounds of `release.answers`.

    Example:
        >>> resolve_image("ghcr.io/aeon-7/vllm-spark-omni-q36:v1.2", "aarch64")  # doctest: +SKIP
    """
    check_proxies()
    hooks = {"response": [Budget().bound]}
    plain = {"Accept-Encoding": "identity"}
    where_else = "the image from another registry"
    with (
        _answers_of("registry", "manifest", reference, "the image's name", where_else),
        Client(event_hooks=hooks, follow_redirects=True, headers=plain, timeout=_TIMEOUT) as client,
    ):
        image = RegistryImage(reference, client, mirrored(reference, mirrors))
        return in_time(lambda: image.lock(registry_architecture(arch)))


def registry_architecture(arch: str) -> str:
    """Return the registry's name of a processor that `uname -m` prints."""
    return _ARCHITECTURES.get(arch, arch)


def content_digest(content: bytes) -> str:
    """Return the digest by which a registry names a content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class RegistryImage:
    """An image on its registry, read by the HTTP API v2.

    Requests are anonymous until the registry asks for more; a login goes to the registry that it is
    for, and to the token server that this one names. oras could be used as well: it bounds neither
    the answers of a registry nor a helper's time, and brings a second HTTP library.

    Args:
        reference: Image with tag or digest.
        client: Follows redirects; it leaves the login behind where one leads to another host.
        name: Where it is had: its name on a mirror; "" for the same.
    """

    def __init__(self, reference: str, client: Client, name: str = "") -> None:
        name = name or reference
        self.reference = reference if name == reference else f"{reference} (as {name})"
        self.client = client
        self._authorization: dict[str, str] = {}
        self._login: RegistryLogin | None = None
        place = repository(name)
        self.version = name[len(place) + 1 :]
        self.registry, path = registry_of(place)
        host = "registry-1.docker.io" if self.registry == "docker.io" else self.registry
        self.url = f"{_scheme(host)}://{host}/v2/{path}"

    def lock(self, architecture: str) -> ImageLock:
        """Return what a lock has of it, on a processor by the registry's name."""
        found = self.manifests(architecture)
        top, manifest = found[0], json.loads(found[-1])
        data = {
            "digest": content_digest(top),
            "config": manifest["config"]["digest"],
            "size": sum(layer["size"] for layer in manifest["layers"]),
        }
        return parse(ImageLock, data, self.reference)

    def manifests(self, architecture: str) -> list[bytes]:
        """Return its manifest for a processor, after the index that names it, if there is one.

        Raises:
            PlanError: It has none for that processor, or another content than its name says.
        """
        top = self._get("manifests", self.version)
        digest = content_digest(top.content)
        declared = top.headers.get("Docker-Content-Digest", digest)
        named = self.version if self.version.startswith("sha256:") else declared
        if not digest == declared == named:
            raise self._error(f"content of digest {digest}", f"{named}, as it was named")
        manifest = top.json()
        if "manifests" not in manifest:
            config = self._get("blobs", manifest["config"]["digest"]).json()
            self._check(architecture, [(config["os"], config["architecture"])])
            return [top.content]
        offered = {
            (entry["platform"]["os"], entry["platform"]["architecture"]): entry["digest"]
            for entry in manifest["manifests"]
        }
        self._check(architecture, list(offered))
        chosen = offered["linux", architecture]
        content = self._get("manifests", chosen).content
        if content_digest(content) != chosen:
            raise self._error(f"content of digest {content_digest(content)}", f"{chosen}")
        return [top.content, content]

    @contextmanager
    def blob(self, digest: str, begin: int) -> Iterator[Response]:
        """Give a registry's answer with a part of the image, from a byte on.

        Raises:
            PlanError: It has none.
        """
        headers = {"Range": f"bytes={begin}-"} if begin else {}
        if not self._authorization:
            # Whoever asks for the manifest gets a token, where one is needed.
            self._get("manifests", self.version)
        request = self.client.build_request(
            "GET", f"{self.url}/blobs/{digest}", headers=headers | self._authorization
        )
        response = self.client.send(request, stream=True)
        try:
            if response.status_code not in (200, 206):
                # Tokens last for minutes, layers take longer.
                self._authorization = {}
                raise self._error(f"HTTP status {response.status_code} for {digest}", "its content")
            yield response
        finally:
            response.close()

    def _check(self, architecture: str, offered: list[tuple[str, str]]) -> None:
        if ("linux", architecture) not in offered:
            names = ", ".join(sorted("/".join(platform) for platform in offered))
            raise self._error(f"an image for {names}", f"one for linux/{architecture}")

    def _get(self, kind: str, version: str) -> Response:
        response = self._request(kind, version)
        challenge = response.headers.get("WWW-Authenticate", "")
        if response.status_code == 401 and challenge:
            # Asked for here, as most images need no login; and not for a host that the registry
            # has led to.
            if response.url.origin == URL(self.url).origin:
                self._login = login_of(self.registry)
            self._authorization = self._answer(challenge)
            response = self._request(kind, version)
        match response.status_code:
            case 200:
                return response
            case 401 | 403:
                raise self._no_access()
            case 404:
                raise self._error("no such image", "a name and tag that the registry has")
            case status:
                raise self._error(f"HTTP status {status}", "an answer; try again later")

    def _request(self, kind: str, version: str) -> Response:
        headers = {"Accept": ", ".join(_MANIFESTS)} if kind == "manifests" else {}
        return self.client.get(
            f"{self.url}/{kind}/{version}", headers=headers | self._authorization
        )

    def _answer(self, challenge: str) -> dict[str, str]:
        """Return the header by which a registry's challenge is answered."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "bearer":
            return {"Authorization": f"Bearer {self._token(rest)}"}
        if scheme.lower() != "basic" or self._login is None or self._login.is_token:
            raise self._no_access()
        return {"Authorization": self._login.basic}

    def _token(self, challenge: str) -> str:
        """Fetch the token that a registry gives for a login, or to anonymous callers."""
        fields = parse_keqv_list(parse_http_list(challenge))
        query = {key: value for key, value in fields.items() if key in ("service", "scope")}
        realm, login = fields["realm"], self._login
        if login and urlsplit(realm).scheme != "https" and self.url.startswith("https:"):
            found = f"the token server {realm[:200]}, which would get the login unencrypted"
            raise self._error(found, "one by https, as the registry is")
        if login is None:
            answer = self.client.get(realm, params=query)
        elif login.is_token:
            form = {"grant_type": "refresh_token", "refresh_token": login.secret} | query
            form["client_id"] = "sparkwright"
            # A redirection would take the token along.
            answer = self.client.post(realm, data=form, follow_redirects=False)
        else:
            answer = self.client.get(realm, params=query, headers={"Authorization": login.basic})
        if answer.status_code in (400, 401, 403):
            raise self._no_access()
        if answer.status_code != 200:
            found = f"HTTP status {answer.status_code} of the token server"
            raise self._error(found, "a token; try again later")
        content = answer.json()
        return str(content.get("token") or content["access_token"])

    def _no_access(self) -> PlanError:
        if self._login is None:
            return self._error("no access", missing(self.registry))
        user = self._login.user or "an identity token"
        found = f"no access by the login of {user} ({self._login.source})"
        return self._error(found, refused(self._login))

    def _error(self, found: str, expected: str) -> PlanError:
        return _error(self.reference, found, expected)


def _scheme(host: str) -> str:
    """Return http for a bare address and for this machine, as in a lab; https for a name."""
    name = host.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return "http" if name == "localhost" else "https"
    return "http"
