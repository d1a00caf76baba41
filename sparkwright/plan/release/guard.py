"""The guard of engines: what their containers may exchange packets with, by systemd's slices."""

from collections.abc import Sequence

from sparkwright.common.files import ManagedFile
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.ports import MASTER_PORT
from sparkwright.common.render import unit_file

# Neither is within the other, from which it would have what that allows: no dash.
ALONE, PAIR = "sparkwright.slice", "sparkwright_pair.slice"

# Where a group's engines may fetch media from the internet: all that is no address there (RFC 1918,
# 3927, 4193, 4291, 6598 and multicast), so that nobody sends them to a neighbour by a URL. A pair's
# has the host's network: there it is the host itself, too, but for the resolver.
_NEIGHBOURS = (
    *("10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
    *("224.0.0.0/4", "fc00::/7", "fe80::/10", "ff00::/8"),
)
_HOST, _RESOLVER = "localhost", "127.0.0.53"
_FILES = HOST_FILES / "engine"


def slice_of(nodes: int) -> str:
    """Return the slice in which the container of a replica's engine runs."""
    return PAIR if nodes > 1 else ALONE


def guard_files(root: str, fabric: Sequence[str], *, internet: bool) -> list[ManagedFile]:
    """Return the slices' files.

    Args:
        fabric: addresses of both Sparks of a pair on the fabric; none where there is no pair.
        internet: engines may reach it, to fetch what clients name.
    """
    denied = " ".join(_NEIGHBOURS) if internet else "any"
    files = [unit_file(_FILES / ALONE, root=root, denied=denied)]
    if fabric:
        allowed = " ".join([*fabric, *[_RESOLVER] * internet])
        denied = f"{_HOST} {denied}" if internet else denied
        values = {"allowed": allowed, "denied": denied, "master": MASTER_PORT}
        files.append(unit_file(_FILES / PAIR, root=root, **values))
    return files
