"""The way to a Spark by SSH, and what the errors on it mean."""

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
    """The way in which SSH reaches a Spark, for the commands in messages; keys are files."""

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
