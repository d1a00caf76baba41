"""The one reader of what pyinfra knows of a host: inventory, group data, command line."""

from typing import Any

from pyinfra.api import Host

from sparkwright.fleet.settings import Settings, settings_of


def data_of(host: Host) -> dict[str, Any]:
    """Return all of it; what has a type and a name is in `Settings` and in the target."""
    data: dict[str, Any] = host.data.dict()
    return data


def settings(host: Host) -> Settings:
    """Return the settings of a host.

    Raises:
        PlanError: They cannot be.
    """
    return settings_of(data_of(host))


def settings_of_replica(host: Host, replica: str) -> Settings:
    """Return the settings of a replica, as the gateway's host finds them, which has others.

    Raises:
        PlanError: They cannot be.
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
