"""Logins of image registries: those that Docker has on the machine that runs pyinfra.

They are read as `docker login` has left them: in Docker's config.json, or by the helper program
that it names for a registry or for all.
"""

import base64
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
from sparkwright.plan.release.release import repository

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
    """A login of a registry, and where it was found; no text made of it has its secret."""

    registry: str
    user: str
    secret: str = field(repr=False)
    source: str

    def __post_init__(self) -> None:
        hide(self.secret)

    @property
    def basic(self) -> str:
        """The value of the header Authorization."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.secret}'.encode()).decode()}"

    @property
    def for_docker(self) -> str:
        """The login as JSON, as Docker's API takes it."""
        whole = {"username": self.user, "password": self.secret, "serveraddress": self.registry}
        return json.dumps(whole)


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
    mirror = mirrors.get(registry)
    return f"{mirror}/{path}{image[len(name) :]}" if mirror else image


def config_path() -> Path:
    """Return the path of Docker's configuration of this user."""
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"


@cache
def login_of(registry: str) -> RegistryLogin | None:
    """Return Docker's login of a registry, named as in names of images; None without one."""
    path = config_path()
    text = read_text(path, "Docker's logins, or no such file", _MOST)
    try:
        config = _mapping(json.loads(text or "{}"), str(path))
    except (ValueError, RecursionError):
        config = _mapping(None, str(path))
    server = _DOCKER_HUB if registry == "docker.io" else registry
    helpers = _mapping(config.get("credHelpers") or {}, f"{path}: credHelpers")
    if helper := helpers.get(server, helpers.get(registry, config.get("credsStore"))):
        if not isinstance(helper, str) or not _HELPER.fullmatch(helper):
            raise PlanError(
                f"{path}: found the credential helper {str(helper)[:60]!a}; expected the end of a "
                "program's name, such as pass for docker-credential-pass"
            )
        if found := _from_helper(helper, registry, server):
            return found
    for key, entry in _mapping(config.get("auths") or {}, f"{path}: auths").items():
        # Old keys are URLs.
        if key == server or key.split("://")[-1].partition("/")[0] == registry:
            auth = _mapping(entry, f"{path}: auths.{registry}").get("auth")
            return _decoded(auth, registry, path) if auth else None
    return None


def _mapping(found: object, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise PlanError(f"{where}: found no JSON object; expected Docker's config.json: mend it")
    return found


def _decoded(auth: object, registry: str, path: Path) -> RegistryLogin:
    try:
        user, _, secret = base64.b64decode(str(auth), validate=True).decode().partition(":")
    except ValueError:
        user = secret = ""
    if not user or not secret:
        raise PlanError(
            f"{path}: auths.{registry}.auth: found no user and password in base64; expected both: "
            f"docker login {registry}, on this machine, writes it anew"
        )
    return RegistryLogin(registry, user, secret.rstrip("\0"), str(path))


def _from_helper(helper: str, registry: str, server: str) -> RegistryLogin | None:
    """Ask a helper program for a login; None if it has none."""
    program = f"docker-credential-{helper}"
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
        answer = done.stdout[:_MOST]
        # These words are the protocol's own, on its standard output.
        if done.returncode and b"credentials not found" in answer:
            return None
        if not done.returncode:
            login = json.loads(answer)
            user, secret = str(login["Username"]), str(login["Secret"])
            is_password = secret and user != _TOKEN_USER
            return RegistryLogin(registry, user, secret, program) if is_password else None
        found = f"exit status {done.returncode}"
    except FileNotFoundError:
        found = "no such program on this machine"
    except subprocess.TimeoutExpired:
        found = f"no answer in {_PATIENCE} s"
    except OSError as error:
        found = f"a program that cannot be run ({error.strerror})"
    except (ValueError, KeyError, TypeError, RecursionError):
        found = "no login in its answer"
    raise PlanError(
        f"{config_path()}: {program}: found {found}; expected a login for {registry}: see what "
        f"`echo {server} | {program} get` says on this machine"
    )
