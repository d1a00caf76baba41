"""The data that pyinfra has of a host: inventory, group data, command line."""

from typing import Any

from pyinfra.api import Host


def data_of(host: Host) -> dict[str, Any]:
    """Return all data of a host; `Target` holds them typed."""
    data: dict[str, Any] = host.data.dict()
    return data
