"""Logins of image registries: those that Docker has on the machine that runs pyinfra.

They are read as `docker login` has left them: in Docker's config.json, or by the helper program
that it names for a registry or for all.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.last_resort import hide
from sparkwright.common.local_file import read_text
from sparkwright.common.terminal import waiting_for
from sparkwright.release.release import repository

# The key of Docker Hub's login; other registries are named by their host.
_DOCKER_HUB = "https://index.docker.io/v1/"
# The user name by which a helper says that its secret is an identity token.
_TOKEN_USER = "<token>"
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Seconds that a helper may take: one may ask a person for a passphrase.
_PATIENCE = 60
# Bytes of config.json, and of a helper's answer: a login has some hundred, a token a few thousand.
_MOST = 1 << 20


@dataclass(frozen=True)
class RegistryLogin:
    """A login of one registry; its secret is in no text that is made of it.

    Attributes:
        registry: Host of the registry, with its port if it has one.
        user: Name of the account; "" with an identity token.
        secret: Password, access token, or identity token.
        source: Where it was found, for messages.
    """

    registry: str
    user: str
    secret: str = field(repr=False)
    source: str

    def __post_init__(self) -> None:
        hide(self.secret)

    @property
    def is_token(self) -> bool:
        """Tell whether the secret is an identity token, which only a token server takes."""
        return not self.user

    @property
    def basic(self) -> str:
        """The value of the header Authorization."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.secret}'.encode()).decode()}"

    @property
    def for_docker(self) -> str:
        """The login as JSON, as Docker's API takes it."""
        where = {"serveraddress": self.registry}
        if self.is_token:
            return json.dumps({"identitytoken": self.secret, **where})
        return json.dumps({"username": self.user, "password": self.secret, **where})


def registry_of(name: str) -> tuple[str, str]:
    """Split the name of an image, without tag or digest, into registry and path as Docker does."""
    first, _, rest = name.partition("/")
    if not rest or not ("." in first or ":" in first or first == "localhost"):
        first, rest = "docker.io", name
    if first == "docker.io" and "/" not in rest:
        rest = f"library/{rest}"
    return first, rest


def mirrored(image: str, mirrors: Mapping[str, str]) -> str:
    """Return the name by which an image is had: its own, or that on the mirror of its registry."""
    name = repository(image)
    registry, path = registry_of(name)
    if registry not in mirrors:
        return image
    return f"{mirrors[registry]}/{path}{image[len(name) :]}"


def config_path() -> Path:
    """Return the path of Docker's configuration of this user."""
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"


@cache
def login_of(registry: str) -> RegistryLogin | None:
    """Return Docker's login of a registry; None without one.

    Args:
        registry: Its host, with its port if it has one, as names of images have it.

    Raises:
        PlanError: The configuration is damaged, or a helper fails.
    """
    path = config_path()
    config = _config(path)
    server = _DOCKER_HUB if registry == "docker.io" else registry
    helpers = _mapping(config, "credHelpers", path)
    helper = helpers.get(server, helpers.get(registry, config.get("credsStore")))
    if helper:
        if not isinstance(helper, str) or not _HELPER.fullmatch(helper):
            raise PlanError(
                f"{path}: found the credential helper {str(helper)[:60]!a}; expected the end of a "
                "program's name, such as pass for docker-credential-pass"
            )
        if found := _from_helper(helper, registry, server):
            return found
    for key, entry in _mapping(config, "auths", path).items():
        if key == server or _host(key) == registry:
            return _from_entry(entry, registry, path)
    return None


def missing(registry: str) -> str:
    """Return what helps where a registry wants a login and there is none, after "expected"."""
    return (
        f"an image that anyone may pull, or a login for {registry} in {config_path()}, of which it "
        f"has none: docker login {registry}, on this machine"
    )


def refused(login: RegistryLogin) -> str:
    """Return what helps where a registry refuses a login, after "expected"."""
    return (
        f"one that {login.registry} takes, for an account that may pull this image: "
        f"docker login {login.registry}, on this machine"
    )


def _config(path: Path) -> dict[str, Any]:
    text = read_text(path, "Docker's logins, or no such file", _MOST)
    if text is None:
        return {}
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise PlanError(f"{path}: found no JSON object; expected Docker's config.json: mend it")
    return config


def _mapping(config: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    found = config.get(key) or {}
    if not isinstance(found, dict):
        raise PlanError(f"{path}: {key}: found no JSON object; expected one: mend it")
    return found


def _host(key: str) -> str:
    """Return the registry that a key of `auths` means: old ones are URLs."""
    return key.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _from_entry(entry: object, registry: str, path: Path) -> RegistryLogin | None:
    remedy = f"docker login {registry}, on this machine, writes it anew"
    if not isinstance(entry, dict):
        raise PlanError(f"{path}: auths.{registry}: found no JSON object; expected one: {remedy}")
    if token := entry.get("identitytoken"):
        return RegistryLogin(registry, "", str(token), str(path))
    auth = entry.get("auth")
    if not auth:
        return None
    try:
        text = base64.b64decode(str(auth), validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    user, colon, secret = text.partition(":")
    if not colon or not user or not secret:
        raise PlanError(
            f"{path}: auths.{registry}.auth: found no user and password in base64; expected both: "
            f"{remedy}"
        )
    return RegistryLogin(registry, user, secret.rstrip("\0"), str(path))


def _from_helper(helper: str, registry: str, server: str) -> RegistryLogin | None:
    """Ask a helper program for a login; None if it has none."""
    program = f"docker-credential-{helper}"
    where = f"{config_path()}: {program}"
    remedy = (
        f"a login for {registry}: see what `echo {server} | {program} get` says on this machine"
    )
    try:
        with waiting_for(program, _PATIENCE):
            done = subprocess.run(
                [program, "get"],
                input=server.encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE,
                check=False,
            )
    except FileNotFoundError:
        raise PlanError(f"{where}: found no such program on this machine; expected it") from None
    except subprocess.TimeoutExpired:
        raise PlanError(f"{where}: found no answer in {_PATIENCE} s; expected {remedy}") from None
    except OSError as error:
        raise PlanError(f"{where}: cannot be run ({error.strerror}); expected {remedy}") from None
    if done.returncode:
        # These words are the protocol's own, on its standard output.
        if b"credentials not found" in done.stdout[:_MOST]:
            return None
        raise PlanError(f"{where}: found exit status {done.returncode}; expected {remedy}")
    try:
        answer = json.loads(done.stdout[:_MOST])
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PlanError(f"{where}: found no login in its answer; expected {remedy}") from None
    if not secret:
        return None
    return RegistryLogin(registry, "" if user == _TOKEN_USER else user, secret, program)
