"""The messages about Sparks that a run cannot reach, may not change, or has lost."""

import re
import shlex
from dataclasses import dataclass

# Patterns of SSH errors, and what each means, for the login of a `Login`. The first that matches
# counts.
_CAUSES = (
    (r"Unparsable line (.*?)\)*$", "a line of ~/.ssh/config has no value: {0}"),
    (
        r"\.ssh/config: invalid literal.*: '([^']*)'",
        "~/.ssh/config has {0} where a number is expected, such as that of a port",
    ),
    (
        r"\.ssh/config: maximum recursion",
        "a `Host *` with a ProxyJump would jump to itself: except the jump host from it in "
        "~/.ssh/config",
    ),
    (r"\.ssh/config", "~/.ssh/config cannot be read"),
    (
        r"jump host (\S+): ChannelException\(1,",
        "its jump host {0} forwards no connections: AllowTcpForwarding in sshd_config there",
    ),
    (
        r"jump host (\S+): ChannelException",
        "its jump host {0} gets no answer from {address}: no power, no network, or another address",
    ),
    (
        r"jump host (\S+): ",
        "its jump host {0} (ProxyJump in ~/.ssh/config) cannot be passed: ssh to it must log in "
        "without a password",
    ),
    (
        r"ProxyCommand (.+?): ",
        "its ProxyCommand in ~/.ssh/config fails; run it by hand to see why: {0}",
    ),
    (
        # paramiko's, where the inventory accepts known host keys only.
        r"StrictPolicy",
        "its host key is not known, and the inventory takes no other "
        "(ssh_strict_host_key_checking): compare `ssh-keyscan -p {port} {address} | ssh-keygen -lf "
        "-` with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the Spark itself, and put "
        "the line into the known_hosts file",
    ),
    (
        r"host key|not found in known_hosts",
        "it shows another host key than before. If you have reinstalled it: ssh-keygen -R {known}; "
        "if not, another machine has its address",
    ),
    (
        r"No authentication methods",
        "this machine has no SSH key, and no agent with one: ssh-keygen -t ed25519, then "
        "ssh-copy-id {login}",
    ),
    (
        r"uthentication|private key|publickey|password",
        "it rejects this SSH key for this user: ssh-copy-id {login}, or correct ssh_user and "
        "ssh_key. `ssh {login}` must log in without a password",
    ),
    (
        r"resolve|Name or service",
        "its host name {address} does not resolve: correct ssh_hostname in the inventory",
    ),
    (
        # paramiko's "Unable to connect" stands for a closed port, and for an absent host.
        r"refused|Unable to connect",
        "it refuses the connection: is it on and booted, and are ssh_hostname and ssh_port right?",
    ),
    (r"timed out|Timeout|No route|unreachable|Host is down", "no answer: no power or no network"),
    (
        r"protocol banner|No existing session",
        "the connection broke before a greeting of SSH: does it boot, and is ssh_port right?",
    ),
    (r"known_hosts", "the file for host keys cannot be written"),
    (r"\[Errno 2\]", "a file that ~/.ssh/config names is missing"),
    (
        r"reset|EOF|closed|not active|Broken pipe|disconnect",
        "the connection broke: no power, no network, or a reboot",
    ),
)


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
    for pattern, text in _CAUSES:
        if match := re.search(pattern, error):
            named = {"address": way.address, "port": way.port, "login": way, "known": way.known}
            return f"{text.format(*match.groups(), **named)} ({error})"
    return error


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
