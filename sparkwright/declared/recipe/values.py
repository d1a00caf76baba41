"""The allowed values of single keys of a recipe."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Discriminator, Field, Tag

from sparkwright.common.placed import folder_names
from sparkwright.common.schema import Model, Text, matching, satisfying

# The jobs whose orders are manifests/NAME@…
_JOBS = ("image", "image-build", "switch")

# Sparks that may serve one model together: a switch joins any, and models divide by these.
COUNTS = (1, 2, 3, 4, 8)

# The variables that each Spark of a group sets by its own link when an engine starts.
FABRIC_ENVIRONMENT = (
    *("VLLM_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"),
    *("UCX_NET_DEVICES", "NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX"),
    *("NCCL_IGNORE_CPU_AFFINITY", "NCCL_DEBUG"),
)

# Those that it sets in a ring as well, in the place of a recipe's.
RING_ENVIRONMENT = (
    *("NCCL_IB_SUBNET_AWARE_ROUTING", "NCCL_IB_MERGE_NICS", "NCCL_NET_PLUGIN", "NCCL_CROSS_NIC"),
)

LOG_LEVEL = "VLLM_LOGGING_LEVEL"

# The domains from which an engine may fetch images, sounds and videos that a request names by URL.
# vLLM fetches any address by default: a client with a key could make the Spark query its own
# loopback, machines of the LAN and a group's fabric. Media inside a request (`data:`) need none.
DOMAINS = "allowed-media-domains"
# An empty list means all domains to vLLM; this name never resolves (RFC 2606, section 2).
NOWHERE = "media.invalid"
# vLLM does not compare the target of a redirect with the list.
NO_REDIRECTS = {"VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0"}

# Seconds for which a group's processes look for the next message without a pause: files/plugin.
SPIN = "SPARKWRIGHT_SPIN_SECONDS"
# By which an engine waits before it uses the GPU: files/host/engine/standby.py, files/plugin.
STANDBY = "SPARKWRIGHT_STANDBY"
# Bytes of the KV cache, as an earlier start measured them: files/host/common/starts.py.
KV_CACHE = "SPARKWRIGHT_KV_CACHE"

# Options and variables that follow from the inventory, the lock or the way the engine is run.
OWN_ARGUMENTS = (
    *("model", "served-model-name", "tensor-parallel-size", "config"),
    *("disable-log-stats", "ssl-certfile", "ssl-keyfile", "ssl-ca-certs", "ssl-cert-reqs"),
    *("ssl-ciphers", "enable-ssl-refresh", "allowed-media-domains"),
    *("host", "port", "uds", "nnodes", "node-rank", "master-addr", "master-port", "headless"),
)
OWN_ENVIRONMENT = (
    *("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "VLLM_MEDIA_URL_ALLOW_REDIRECTS"),
    *(STANDBY, KV_CACHE),
    *FABRIC_ENVIRONMENT,
)

# ${NAME} stands for the folder of the checkpoint NAME.
REFERENCE = re.compile(r"\$\{([^}]*)\}")

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_IMAGE = re.compile(
    r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})"
)
_OPTION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# A path in a repository, with the wildcards of fnmatch.
_PATTERN = re.compile(r"(?!/)(?!.*\.\.)[\w.*?\[\]!@+~ /-]{1,200}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
MOD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _folder(value: str) -> str:
    if not _FOLDER.fullmatch(value):
        raise ValueError("one folder name of letters, digits, '.', '_' and '-', below the root")
    reserved = (*folder_names(), *_JOBS)
    if value in reserved:
        raise ValueError(f"another folder than {', '.join(reserved)}, which are in use")
    return value


def _is_argument(value: object) -> bool:
    """Tell whether a command line or JSON can hold it: no null alone, no date, no NaN."""
    if isinstance(value, list):
        return bool(value) and all(map(_is_scalar, value))
    return _is_json(value) if isinstance(value, dict) else _is_scalar(value)


def _is_scalar(value: object) -> bool:
    if isinstance(value, str):
        return value.isprintable() and not value.startswith("-")
    return isinstance(value, int | float) and math.isfinite(value)


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _option(name: str) -> str:
    if _OPTION.fullmatch(name):
        return name
    meant = name.lower().replace("_", "-").lstrip("-")
    begun = f"did you mean {meant!r}? Expected" if _OPTION.fullmatch(meant) else "expected"
    raise ValueError(f"{begun} a long option of vLLM without its dashes")


Argument = Annotated[
    Any,
    satisfying(
        _is_argument,
        "true, false, a number, text on one line that does not start with '-', a list of these, or "
        "a mapping",
    ),
]
FilePattern = Annotated[str, matching(_PATTERN)]
Folder = Annotated[str, AfterValidator(_folder)]
Image = Annotated[
    str, matching(_IMAGE, "an image with a tag or digest, such as example.org/name:1.0")
]
Option = Annotated[str, AfterValidator(_option)]
Repository = Annotated[str, matching(REPOSITORY)]
Revision = Annotated[str, matching(re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*"))]
Variable = Annotated[str, matching(_VARIABLE, "the name of an environment variable")]
Release = Annotated[str, matching(RELEASE, "a release of vLLM, such as 0.28.0")]


class ImageBuild(Model):
    """An image that a Spark makes itself, of a folder below files/images."""

    # Bytes of disk that a build takes besides its base: half is ccache's limit (10 GB in the
    # Dockerfiles), half our estimate for source, objects and the result. Not measured.
    disk: ClassVar = 20 * 10**9

    build: Annotated[str, matching(_OPTION)] = Field(description="a folder of files/images")
    base: Image = Field(description="the image that it is built on, with a tag or digest")
    args: dict[Variable, Text] = Field(
        default_factory=dict, description="text in quotes, for the ARG lines of its Dockerfile"
    )

    @property
    def repository(self) -> str:
        """The name, without a tag, of what it makes."""
        return f"sparkwright/{self.build}"


def _is_mod(value: object) -> bool:
    # YAML has no paths: only a reader of other projects' recipes, whose mods lie in a checkout,
    # gives one.
    return isinstance(value, Path) or (isinstance(value, str) and bool(MOD_NAME.fullmatch(value)))


class ImageMods(Model):
    """An image that a Spark derives from another one: by mods, folders whose run.sh changes it."""

    # Our estimate for another PyTorch with its CUDA libraries. Not measured.
    disk: ClassVar = 10 * 10**9
    repository: ClassVar = "sparkwright/mods"

    base: Image = Field(description="the image that the mods change, with a tag or digest")
    mods: list[Annotated[Any, satisfying(_is_mod, "a folder of files/mods")]] = Field(
        min_length=1, description="a list of folders of files/mods, in the order of their use"
    )
    vllm: Release | None = Field(
        default=None,
        description="the release of vLLM that the mods install, such as 0.33.0, if they change it",
    )


def _kind(value: object) -> str:
    if isinstance(value, ImageMods) or (isinstance(value, dict) and "mods" in value):
        return "<mods>"
    return "<build>" if isinstance(value, dict | ImageBuild) else "<image>"


ImageOrBuild = Annotated[
    Annotated[Image, Tag("<image>")]
    | Annotated[ImageBuild, Tag("<build>")]
    | Annotated[ImageMods, Tag("<mods>")],
    Discriminator(_kind),
]
