"""The gateway's files: its configuration, and the configuration of its door."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from sparkwright.door.gateway.gateway import Upstream, served

# The backend to which the gateway's door sends requests.
BEHIND = "gateway"
# MiB of a request at most: the gateway reads each one whole.
LARGEST = 8
# Files beside the configuration of the door's HAProxy, whose checks know whether a replica serves.
# Requests go to the gateway in any case: its answer says why none does.
DOOR_FILES = {
    "choice.map": "hold no\n",
    "engines.cfg": f"""\
backend engines from door
    server gateway unix@/gateway.sock check inter 2s downinter 500ms fall 3 rise 1
# Nothing waits here.
backend patient from door
backend {BEHIND} from door
    http-request set-header x-sparkwright-client %[var(txn.name)]
    server gateway unix@/gateway.sock
""",
}


def configuration(replicas: Sequence[Upstream], urls: Mapping[str, str], trusted: str) -> str:
    """Return the gateway's configuration; it has no secret.

    Args:
        urls: By replica, as `doors` returns them.
        trusted: Certificates (PEM) that doors may be signed by, beside those of known authorities.
    """
    doors = {each.replica: {"url": urls[each.replica], "keyed": each.keyed} for each in replicas}
    models = {
        alias.name: {
            "served": alias.served,
            "replicas": [each.replica for each in alias.upstreams],
            "defaults": dict(alias.sampling),
        }
        for alias in served(replicas)
    }
    return json.dumps({"doors": doors, "models": models, "trusted": trusted}, indent=2) + "\n"


# Where the names of doors can lead: no public address. 100.64.0.0/10 has Tailscale's.
_PRIVATE = (
    *("localhost", "link-local", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    *("100.64.0.0/10", "fc00::/7"),
)


def reachable(urls: Iterable[str]) -> list[str]:
    """Return the addresses that the gateway may exchange packets with, for IPAddressAllow.

    These are the doors' addresses. If a door has a name, which a name server must tell and which
    may change, all private addresses are allowed as well.
    """
    hosts = {str(urlsplit(url).hostname).partition("%")[0] for url in urls}
    addresses = sorted(filter(_is_address, hosts))
    return addresses if len(addresses) == len(hosts) else [*_PRIVATE, *addresses]


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False
