"""The fleet: the Sparks that there are, and the replicas that they serve together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from sparkwright.common.schema import Model, Text

_Port = Annotated[int, Field(ge=1, le=65535)]


class Reached(Model):
    """The keys by which pyinfra reaches a host."""

    local: bool = Field(
        default=False, description="true for the machine that runs pyinfra, or false"
    )
    ssh_hostname: Text | None = Field(
        default=None, min_length=1, description="an address or host name, such as 192.168.1.20"
    )
    ssh_user: Text | None = Field(
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
    # YAML takes a bare `yes` for true.
    ssh_strict_host_key_checking: Annotated[
        Literal["yes", "accept-new"], BeforeValidator(lambda word: "yes" if word is True else word)
    ] = Field(
        default="accept-new",
        description="yes, for host keys that are in the known_hosts file only, or accept-new",
    )

    @property
    def connection(self) -> dict[str, str | int]:
        """The ``ssh_*`` keys that were set, by pyinfra's names for them."""
        data = self.model_dump(exclude_unset=True, exclude_none=True)
        return {key: value for key, value in data.items() if key.startswith("ssh_")}


class Spark(Reached):
    """One host. Without ``ssh_hostname`` its name is looked up, in the SSH configuration too."""

    hardware: Text = Field(default="gb10", description="a hardware class, such as gb10")


class Gateway(Reached):
    """Where all replicas have one address: on a Spark, or on a host of its own."""

    spark: Text | None = Field(
        default=None, min_length=1, description="the name of a Spark, such as spark-a"
    )
    # systemd gives a service without root's rights no port below.
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


@dataclass(frozen=True)
class Assignment:
    """The part of one Spark in the replica that it serves.

    Attributes:
        ranks: All Sparks of the replica, the head first.
        rank: This Spark's place among them.
        port: Where clients ask the replica.
        api_key: "none" where they need none.
    """

    replica: str
    recipe: str
    ranks: tuple[str, ...]
    rank: int
    port: int
    api_key: Literal["none"] | None


@dataclass(frozen=True)
class Fleet:
    """All Sparks and replicas of one inventory file; the path of a recipe's file is absolute."""

    source: Path
    sparks: Mapping[str, Spark]
    replicas: Mapping[str, Replica]
    gateway: Gateway | None = None

    @property
    def recipes(self) -> list[str]:
        """Names, or paths, of the recipes in use, sorted."""
        return sorted({replica.recipe for replica in self.replicas.values()})

    def assignment(self, spark: str) -> Assignment | None:
        """Return the part of a Spark in a replica, or None: it is prepared, and idle.

        Args:
            spark: The Spark's name.
        """
        for name, replica in self.replicas.items():
            if spark in replica.sparks:
                rank = replica.sparks.index(spark)
                ranks = tuple(replica.sparks)
                return Assignment(name, replica.recipe, ranks, rank, replica.port, replica.api_key)
        return None


def bracketed(address: str) -> str:
    """Return an address as URLs write it."""
    return f"[{address}]" if ":" in address else address
