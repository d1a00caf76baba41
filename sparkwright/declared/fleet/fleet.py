"""The fleet: all Sparks, the replicas that they serve, and the API keys of their owner."""

from __future__ import annotations

import re
import shlex
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import Model, Name, Text, matching
from sparkwright.common.terminal import waiting_for
from sparkwright.declared.recipe.values import COUNTS

# Seconds within which the owner's command ends: a person may have to type a passphrase.
PATIENCE = 120

# What each command has printed in this process, and what was wrong: a person is asked once.
_said: dict[tuple[str, ...], tuple[str, str]] = {}
_turn = threading.Lock()

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
        if "%" not in address:  # Python takes any text for a zone.
            return text
    if re.fullmatch(r"[^:]+:[0-9]+", text):
        raise ValueError(f"the address alone; the port is ssh_port: {text.rpartition(':')[2]}")
    if re.fullmatch(r"[0-9.]+", text):
        raise ValueError("an address of four numbers from 0 to 255, such as 192.168.1.20")
    if not _HOST.fullmatch(text):
        raise ValueError("an address or host name, such as 192.168.1.20 or spark-a.lan")
    return text


_USER = re.compile(r"[^\s@:/-][^\s@:/]*")
_User = Annotated[Text, matching(_USER, "the name of a user alone, such as nvidia")]
_Some = Annotated[Text, Field(min_length=1)]


class Reached(Model):
    """A host as pyinfra reaches it."""

    local: bool = Field(
        default=False, description="true for the machine that runs pyinfra, or false"
    )
    ssh_hostname: Annotated[Text, AfterValidator(_host_name)] | None = Field(
        default=None, description="an address or host name, such as 192.168.1.20"
    )
    ssh_user: _User | None = Field(default=None, description="the name of a user who may sudo")
    ssh_port: int = Field(default=22, ge=1, le=65535, description="a TCP port from 1 to 65535")
    ssh_key: _Some | None = Field(
        default=None, description="the path of a private key, such as ~/.ssh/id_ed25519"
    )
    ssh_known_hosts_file: _Some | None = Field(
        default=None, description="the path of a known_hosts file"
    )
    ssh_strict_host_key_checking: Literal["yes", "accept-new"] = Field(
        default="accept-new",
        description="yes, for host keys that are in the known_hosts file only, or accept-new",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.local and self.connection:
            raise ValueError("either local: true, or keys that begin with ssh_")
        return self

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

    spark: _Some | None = Field(default=None, description="the name of a Spark, such as spark-a")
    # Lower ports need root's rights, which the service does not have.
    port: int = Field(default=4000, ge=1024, le=65535, description="a TCP port from 1024 to 65535")

    @model_validator(mode="after")
    def _one_host(self) -> Self:
        if self.spark and (self.local or self.connection):
            raise ValueError("either spark, or keys of a host of its own")
        if not (self.spark or self.local or self.ssh_hostname):
            raise ValueError(
                "the name of a Spark, such as {spark: spark-a}, or a host of its own, such as "
                "{ssh_hostname: 192.168.1.10}"
            )
        return self


def _counted(sparks: list[str]) -> list[str]:
    """Accept as many Sparks as may serve one model together."""
    if len(sparks) not in COUNTS:
        raise ValueError(
            f"{' or '.join(map(str, COUNTS))} Sparks for one model: its heads and experts do not "
            "divide by other numbers"
        )
    return sparks


class Replica(Model):
    """Sparks that serve one model together; the first is the head (rank 0)."""

    recipe: Text = Field(description="the name of a recipe, or the path of its file")
    sparks: Annotated[list[Text], AfterValidator(_counted)] = Field(
        min_length=1, description="a list of 1, 2, 3, 4 or 8 Sparks, such as [spark-a]"
    )
    port: int = Field(default=8000, ge=1, le=65535, description="a TCP port from 1 to 65535")
    api_key: Literal["none"] | None = Field(
        default=None, description="`none` (open to everyone), or leave `api_key` out"
    )
    trusts: list[Text] = Field(
        default_factory=list,
        description="a list of what its recipe may use, such as [trust-remote-code]",
    )
    on_demand: bool = Field(default=False, description="true if requests start it, or false")
    pinned: bool = Field(default=False, description="true if it is never stopped, or false")
    idle_minutes: int | None = Field(
        default=None, ge=1, le=10_080, description="minutes without a request, from 1 to 10080"
    )
    turn_seconds: int = Field(
        default=60, ge=0, le=3600, description="seconds that it keeps its place, from 0 to 3600"
    )


class FleetSource(Model):
    """Where images, weights, wheels and packages come from, if not from the internet."""

    bundle: _Some = Field(description="the path of a bundle, a folder")
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = Field(
        default=None,
        description="64 hexadecimal digits: the digest of the bundle's index, without which no run "
        "takes anything from it; the command that fills it prints it",
    )


class InventoryFile(Model):
    """An inventory file."""

    sparks: dict[Name, Spark] = Field(
        min_length=1,
        description="at least one Spark, such as spark-a: {ssh_hostname: 192.168.1.20}",
    )
    replicas: dict[Name, Replica] = Field(
        default_factory=dict,
        description="a mapping of replicas, such as chat: {recipe: …, sparks: [spark-a]}",
    )
    gateway: Gateway | None = Field(
        default=None, description="a mapping such as {spark: spark-a, port: 4000}"
    )
    source: FleetSource | None = Field(
        default=None, description="a mapping such as {bundle: ../bundle}"
    )
    keys_command: list[_Some] | None = Field(
        default=None,
        min_length=1,
        description="a list of words, such as [pass, show, sparkwright/sparks]",
    )


@dataclass(frozen=True)
class Fleet:
    """All Sparks and replicas of an inventory file; paths of recipes are absolute.

    Attributes:
        keys_command: Words of the command that prints the API keys; none where a file has them.
        bundle: What stands for the internet, where that cannot be reached.
        whole: All Sparks of the replicas that are without some.
    """

    source: Path
    sparks: Mapping[str, Spark]
    replicas: Mapping[str, Replica]
    gateway: Gateway | None = None
    keys_command: tuple[str, ...] = ()
    bundle: FleetSource | None = None
    whole: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def recipes(self) -> list[str]:
        """Names, or paths, of the recipes in use, sorted."""
        return sorted({replica.recipe for replica in self.replicas.values()})

    def replicas_of(self, spark: str) -> list[str]:
        """Return the names of the replicas that a Spark serves, in the inventory's order."""
        return [name for name, each in self.replicas.items() if spark in each.sparks]

    def served(self, spark: str, name: str) -> dict[str, object]:
        """Return a Spark's part of a replica, by the names that it has in a host's data."""
        replica = self.replicas[name]
        return {
            "replica": name,
            "recipe": replica.recipe,
            "ranks": replica.sparks,
            "rank": replica.sparks.index(spark),
            "port": replica.port,
            "api_key": replica.api_key,
            "on_demand": replica.on_demand,
            "pinned": replica.pinned,
            **({"whole": self.whole[name]} if name in self.whole else {}),
        }


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


def keys_said(fleet: Fleet) -> str:
    """Return what the owner's `keys_command` prints: the text of a file of keys.

    It runs once a process, in the current folder and without a shell. It has this process's
    standard input and errors, so that it may ask a person. Its output is never shown.
    """
    words = fleet.keys_command
    with _turn:
        if words not in _said:
            with waiting_for(f"keys_command: {shlex.join(words)}", PATIENCE):
                _said[words] = _run(words)
    text, wrong = _said[words]
    if wrong:
        raise PlanError(
            f"{fleet.source}: keys_command: found a command that {wrong}; expected the "
            f"keys on its standard output. Run it by hand to see why: {shlex.join(words)}"
        )
    return text


def _run(words: Sequence[str]) -> tuple[str, str]:
    """Return what a command prints, and what is wrong with it."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, timeout=PATIENCE, check=False)
    except OSError as error:
        return "", f"cannot be run ({error.strerror})"
    except subprocess.TimeoutExpired:
        return "", f"has not ended after {PATIENCE} s"
    if status := done.returncode:
        return "", f"fails ({f'exit status {status}' if status > 0 else f'signal {-status}'})"
    text = done.stdout.decode("utf-8-sig", "replace")
    return text, "" if text.strip() else "prints nothing"
