"""The data that pyinfra has of a host: inventory, group data, command line."""

from typing import Any

from pyinfra.api import Host

from sparkwright.fleet.settings import Settings, settings_of


def data_of(host: Host) -> dict[str, Any]:
    """Return all data of a host; `Target` holds them typed."""
    data: dict[str, Any] = host.data.dict()
    return data


def settings_of_replica(host: Host, replica: str) -> Settings:
    """Return the settings of a replica during a run for the gateway's host.

    Raises:
        PlanError: A setting is invalid.
    """
    inventory = host.inventory
    own = [group for group in host.groups if group != "gateway"]
    return settings_of(
        {
            **inventory.get_data(),
            **inventory.get_groups_data([*own, "sparks", replica]),
            **inventory.get_override_data(),
        }
    )
