"""The fleet: all Sparks, and the replicas that they serve."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import Model, Text

# An alias of ~/.ssh/config may have an underscore.
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_ZONE = re.compile(r"%[A-Za-z0-9_.-]+$")


def _host_name(text: str) -> str:
    """Accept an address or a host name alone: SSH would look up anything else as a name."""
    for sign, instead in (
        ("://", "the address alone, without a scheme"),
        ("@", "the address alone; the user is ssh_user: {before}"),
        ("[", "the address without brackets; the port is ssh_port"),
        ("/", "one address, without / and what follows"),
    ):
        if sign in text:
            raise ValueError(instead.format(before=text.partition(sign)[0] or "NAME"))
    address = _ZONE.sub("", text) if ":" in text else text
    with suppress(ValueError):
        ip_address(address)
        return text
    if re.fullmatch(r"[^:]+:[0-9]+", text):
        raise ValueError(f"the address alone; the port is ssh_port: {text.rpartition(':')[2]}")
    if re.fullmatch(r"[0-9.]+", text):
        raise ValueError("an address of four numbers from 0 to 255, such as 192.168.1.20")
    if not _HOST.fullmatch(text):
        raise ValueError("an address or host name, such as 192.168.1.20 or spark-a.lan")
    return text


def _user(text: str) -> str:
    if not re.fullmatch(r"[^\s@:/-][^\s@:/]*", text):
        raise ValueError("the name of a user alone, such as nvidia")
    return text


_Port = Annotated[int, Field(ge=1, le=65535)]
# Of a command.
Word = Annotated[Text, Field(min_length=1)]


class Reached(Model):
    """A host as pyinfra reaches it."""

    local: bool = Field(
        default=False, description="true for the machine that runs pyinfra, or false"
    )
    ssh_hostname: Annotated[Text, AfterValidator(_host_name)] | None = Field(
        default=None, min_length=1, description="an address or host name, such as 192.168.1.20"
    )
    ssh_user: Annotated[Text, AfterValidator(_user)] | None = Field(
        default=None, min_length=1, description="the name of a user who may sudo"
    )
    ssh_port: _Port = Field(default=22, description="a TCP port from 1 to 65535")
    ssh_key: Text | None = Field(
        default=None,
        min_length=1,
        description="the path of a private key, such as ~/.ssh/id_ed25519",
    )
    ssh_known_hosts_file: Text | None = Field(
        default=None, min_length=1, description="the path of a known_hosts file"
    )
    ssh_strict_host_key_checking: Literal["yes", "accept-new"] = Field(
        default="accept-new",
        description="yes, for host keys that are in the known_hosts file only, or accept-new",
    )

    @property
    def connection(self) -> dict[str, str | int]:
        """The ``ssh_*`` keys that were set, by pyinfra's names for them."""
        data = self.model_dump(exclude_unset=True, exclude_none=True)
        return {key: value for key, value in data.items() if key.startswith("ssh_")}


class Spark(Reached):
    """A Spark. Without ``ssh_hostname`` its name is looked up, also in the SSH configuration."""

    hardware: Text = Field(default="gb10", description="a hardware class, such as gb10")


class Gateway(Reached):
    """The host of the address for all replicas: a Spark, or a host of its own."""

    spark: Text | None = Field(
        default=None, min_length=1, description="the name of a Spark, such as spark-a"
    )
    # Lower ports need root's rights, which the service does not have.
    port: Annotated[int, Field(ge=1024, le=65535)] = Field(
        default=4000, description="a TCP port from 1024 to 65535"
    )


class Replica(Model):
    """Sparks that serve one model together; the first is the head (rank 0)."""

    recipe: Text = Field(description="the name of a recipe, or the path of its file")
    sparks: list[Text] = Field(
        min_length=1, max_length=2, description="a list of one or two Sparks, such as [spark-a]"
    )
    port: _Port = Field(default=8000, description="a TCP port from 1 to 65535")
    api_key: Literal["none"] | None = Field(
        default=None, description="`none` (open to everyone), or leave `api_key` out"
    )
    trusts: list[Text] = Field(
        default_factory=list,
        description="a list of what its recipe may use, such as [trust-remote-code]",
    )


class FleetSource(Model):
    """Where images, weights, wheels and packages come from, if not from the internet."""

    bundle: Text = Field(min_length=1, description="the path of a bundle, a folder")
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = Field(
        default=None,
        description="64 hexadecimal digits: the digest of the bundle's index, without which no run "
        "takes anything from it; the command that fills it prints it",
    )


@dataclass(frozen=True)
class Fleet:
    """All Sparks and replicas of an inventory file; paths of recipes are absolute.

    Attributes:
        bundle: The folder that stands for the internet; None where that can be reached.
        keys_command: Words of the owner's command that prints the API keys; none where they are in
            a file beside the inventory.
    """

    source: Path
    sparks: Mapping[str, Spark]
    replicas: Mapping[str, Replica]
    gateway: Gateway | None = None
    keys_command: tuple[str, ...] = ()
    bundle: FleetSource | None = None

    @property
    def recipes(self) -> list[str]:
        """Names, or paths, of the recipes in use, sorted."""
        return sorted({replica.recipe for replica in self.replicas.values()})

    def replicas_of(self, spark: str) -> list[str]:
        """Return the names of the replicas that a Spark serves, in the inventory's order."""
        return [name for name, each in self.replicas.items() if spark in each.sparks]


def bracketed(address: str) -> str:
    """Return an address as URLs write it."""
    return f"[{address}]" if ":" in address else address


def needed(fleet: Fleet) -> Gateway:
    """Return the fleet's gateway."""
    if fleet.gateway is None:
        raise PlanError(
            f"{fleet.source}: found no gateway; expected where it is to run, such as "
            f"gateway: {{spark: {next(iter(fleet.sparks))}, port: 4000}}"
        )
    return fleet.gateway
