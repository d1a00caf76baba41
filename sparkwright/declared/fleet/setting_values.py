"""The allowed values of single settings."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, ip_address, ip_network
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from sparkwright.common.schema import Text, matching, satisfying

T = TypeVar("T")

# ':' separates the parts of docker's --volume; a root with a space has never been tried.
_ROOT = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._-]*)+")
# A host name, as certificates and URLs write it: letters, digits and hyphens between dots.
HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
# vLLM compares whole host names of URLs, in small letters.
_DOMAIN = re.compile(rf"(?!.*[A-Z])(?=.{{1,253}}$){HOST.pattern}")
# A path in a registry, as names of images have it.
_PATH = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_SIZE = re.compile(r"[0-9]+(\.[0-9]+)?[KMGT]?")
# Such a path stands in a unit, too.
_FOLDER = re.compile(r"(/(?!\.\.?(/|$))[\w.@+-]{1,255})+", re.ASCII)
# A file, or a webhook's URL that is no secret: group data is kept in git.
_NO_SECRET = re.compile(r"(?!.*://).+|(ntfy\+)?https?://(?!ntfy\.sh\b)[a-z0-9.:\[\]-]+/[a-z-]+")
_WITH_PORT = "the address of a proxy with its port, such as http://proxy.lan:3128"
# Host numbers of the Sparks of a group, in the order of their names.
HOST_NUMBERS = tuple(range(11, 19))


def is_address(text: str) -> bool:
    """Tell whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_host(text: str) -> bool:
    """Tell whether a text is a host name or an IP address."""
    return is_address(text) or bool(HOST.fullmatch(text))


def _network(value: str) -> str:
    try:
        network = ip_network(value)
    except ValueError as error:
        raise ValueError(f"a network or an address, such as 192.168.1.0/24 ({error})") from None
    alone = network.prefixlen == network.max_prefixlen
    return str(network.network_address if alone else network)


def _is_url(text: str) -> bool:
    url = urlsplit(text)
    return url.scheme in ("http", "https") and bool(url.hostname)


def _proxy(text: str) -> str:
    try:
        url = urlsplit(text)
        known = url.scheme == "http" and is_host(url.hostname or "") and url.port
    except ValueError:
        known = None
    if known and url.username is not None:
        raise ValueError(
            "neither user nor password in it: group data is kept in git, and users of a Spark "
            "could read them. Have the proxy let the Sparks in by their addresses, or name a "
            "forwarder in your network that logs in to it"
        )
    if not known or text != f"http://{url.netloc}":
        raise ValueError(_WITH_PORT)
    return text


def _is_registry(text: str) -> bool:
    host, _, port = text.partition(":")
    return is_host(host) and (not _ or (port.isdecimal() and 0 < int(port) < 65_536))


def _is_mirror(text: str) -> bool:
    host, _, path = text.partition("/")
    return _is_registry(host) and (not _ or bool(_PATH.fullmatch(path)))


def _subnet(value: str) -> str:
    try:
        network = IPv4Network(value)
    except ValueError as error:
        raise ValueError(f"a subnet such as 192.168.100.0/24 ({error})") from None
    if network.num_addresses <= HOST_NUMBERS[1] + 1:
        raise ValueError(f"room for host {HOST_NUMBERS[1]}, as in a /24")
    if network.is_loopback or network.is_multicast or network.is_link_local:
        raise ValueError("private addresses, such as 192.168.100.0/24")
    return value


def _apart(subnets: tuple[str, str]) -> tuple[str, str]:
    one, other = map(IPv4Network, subnets)
    if one.overlaps(other):
        raise ValueError("two subnets that do not overlap")
    return subnets


# JSON, which the command line takes and pyinfra prints, has lists for tuples.
_List = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
_Many = Annotated[tuple[T, ...], _List]

_Host = Annotated[str, satisfying(is_host, "a host name or an address, such as llm.lan")]
Hosts = Annotated[_Many[_Host], Field(description='host names and addresses, such as ("llm.lan",)')]
_Network = Annotated[str, AfterValidator(_network)]
Networks = Annotated[_Many[_Network], Field(description='networks, such as ("192.168.1.0/24",)')]
_Domain = Annotated[
    str,
    matching(
        _DOMAIN,
        "the whole name of a host as a URL has it, in small letters, without scheme, port or "
        "wildcard, such as images.example.org",
    ),
]
Domains = Annotated[
    _Many[_Domain], Field(description='host names, such as ("images.example.org",)')
]
_Subnet = Annotated[str, AfterValidator(_subnet)]
Subnets = Annotated[
    tuple[_Subnet, _Subnet],
    AfterValidator(_apart),
    _List,
    Field(description="two IPv4 subnets, one for each twin"),
]
_Folder = Annotated[
    str,
    matching(
        _FOLDER, "an absolute path without '..', such as /mnt/models, of letters, digits, . _ - @ +"
    ),
]
Folders = Annotated[_Many[_Folder], Field(description='absolute paths, such as ("/mnt/models",)')]
Notify = Annotated[
    Annotated[Text, matching(_NO_SECRET)] | None,
    Field(description="a URL such as https://ntfy.lan/sparks, a file with a secret one, or None"),
]
File = Annotated[Text | None, Field(description="the path of a PEM file, or None")]
Root = Annotated[str, matching(_ROOT), Field(description="a path such as /opt/qwen36")]
Address = Annotated[str, satisfying(is_address), Field(description="an address, such as 0.0.0.0")]
Hub = Annotated[
    str, satisfying(_is_url), Field(description="a URL, such as https://huggingface.co")
]
_Proxy = Annotated[str, AfterValidator(_proxy)]
Proxy = Annotated[_Proxy | None, Field(description=f"{_WITH_PORT}, or None")]
Registry = Annotated[
    str, satisfying(_is_registry, "the name of a registry in images, such as docker.io")
]
Mirror = Annotated[
    str,
    satisfying(
        _is_mirror,
        "a registry without scheme, and a path in it if images lie below one, such as "
        "registry.lan:5000 or harbor.lan/ghcr",
    ),
]
Size = Annotated[str, matching(_SIZE), Field(description='a size such as "2G"')]
