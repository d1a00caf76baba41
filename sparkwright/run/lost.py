"""The messages about Sparks that a run cannot reach, may not change, or has lost."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sparkwright.common import yaml

_CAUSES = Path(__file__).with_name("ssh_causes.yaml")


@dataclass(frozen=True)
class Login:
    """The way in which SSH reaches a Spark, for the commands in messages.

    Attributes:
        key: File of the only private key that is tried.
        known_hosts: File of host keys, where it is not the usual one.
    """

    address: str = "ADDRESS"
    user: str | None = None
    port: int = 22
    key: str | None = None
    known_hosts: str | None = None

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        key = f"-i {shlex.quote(self.key)} " if self.key else ""
        port = f"-p {self.port} " if self.port != 22 else ""
        return key + port + shlex.quote(user + self.address)

    @property
    def known(self) -> str:
        """What `ssh-keygen -R` needs to forget its host key."""
        name = self.address if self.port == 22 else f"[{self.address}]:{self.port}"
        file = f" -f {shlex.quote(self.known_hosts)}" if self.known_hosts else ""
        return shlex.quote(name) + file


def cause(error: str, login: Login | None = None) -> str:
    """Return why there is no connection, for people, by the error of SSH or the system, if any."""
    if not error:
        return "the connection ended: no power, no network, or a reboot"
    way = login or Login()
    for pattern, text in _causes():
        if match := re.search(pattern, error):
            named = {"address": way.address, "port": way.port, "login": way, "known": way.known}
            return f"{text.format(*match.groups(), **named)} ({error})"
    return error


@cache
def _causes() -> Sequence[tuple[str, str]]:
    return [(each["pattern"], each["cause"]) for each in yaml.load(_CAUSES)["causes"]]


def password_asked(spark: str, user: str | None) -> str:
    """Return the message about a Spark whose sudo asks for a password."""
    return (
        f"{spark}: found sudo that asks for a password; expected none for this user. On the Spark: "
        "sudo visudo -f /etc/sudoers.d/sparkwright, with the line "
        f"{user or 'USER'} ALL=(ALL) NOPASSWD: ALL"
    )


def unreachable_lines(
    spark: str, error: str, command: str, without: str, login: Login | None = None
) -> list[str]:
    """Return the message about a Spark that a run cannot reach at its start.

    `without` is the command line that leaves the Spark out; "" where no other would be left.
    """
    return [
        f"{spark}: no connection: {cause(error, login)}",
        "Nothing was changed on any Spark.",
        *_ways_on(spark, command, without),
    ]


def lost_lines(
    spark: str, step: str, error: str, left: str, command: str, without: str
) -> list[str]:
    """Return the message about a Spark that a run has lost, with the operations that were left."""
    return [
        f"{spark}: lost at: {step}: {cause(error)}",
        "Completed operations remain, and what runs on the Spark by itself (a download, a "
        "switch) continues there if it has power.",
        *([f"Not done on any Spark: {left}"] if left else []),
        *_ways_on(spark, command, without),
    ]


def _ways_on(spark: str, command: str, without: str) -> list[str]:
    lines = [f"When {spark} can be reached again, continue with: {command}"]
    return [*lines, f"To go on without it: {without}"] if without else lines
