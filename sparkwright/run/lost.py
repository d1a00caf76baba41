"""The messages about Sparks that a run cannot reach, or has lost."""

import re

# Patterns of SSH errors, and what each means. The first that matches counts.
_CAUSES = (
    (
        # paramiko's, where the inventory accepts known host keys only.
        r"StrictPolicy",
        "its host key is not known, and the inventory takes no other "
        "(ssh_strict_host_key_checking): compare `ssh-keyscan ADDRESS | ssh-keygen -lf -` with "
        "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the Spark itself, and put the "
        "line into the known_hosts file",
    ),
    (
        r"host key|not found in known_hosts",
        "it shows another host key than before. If you have reinstalled it: ssh-keygen -R ADDRESS; "
        "if not, another machine has its address",
    ),
    (
        r"uthentication|private key|publickey|password",
        "it rejects this SSH key: `ssh ADDRESS` must log in without a password",
    ),
    (
        r"resolve|Name or service",
        "its host name does not resolve: check its address in the inventory",
    ),
    (
        # paramiko's "Unable to connect" stands for a closed port, and for an absent host.
        r"refused|Unable to connect",
        "it refuses the connection: is it on and booted, and is the address in the inventory "
        "right?",
    ),
    (r"timed out|Timeout|No route|unreachable|Host is down", "no answer: no power or no network"),
    (
        r"reset|EOF|closed|not active|Broken pipe|banner|existing session|disconnect",
        "the connection broke: no power, no network, or a reboot",
    ),
)


def cause(error: str) -> str:
    """Return why there is no connection, for people.

    Args:
        error: the error of SSH or the system; "" where the connection ended without one.
    """
    known = [text for pattern, text in _CAUSES if re.search(pattern, error)]
    if not error:
        return "the connection ended: no power, no network, or a reboot"
    return f"{known[0]} ({error})" if known else error


def unreachable_lines(spark: str, error: str, command: str, without: str) -> list[str]:
    """Return the message about a Spark that a run cannot reach at its start.

    Args:
        spark: its name.
        error: as for `cause`.
        command: the command line of the run.
        without: the command line that leaves the Spark out; "" where no other would be left.
    """
    return [
        f"{spark}: no connection: {cause(error)}",
        "Nothing was changed on any Spark.",
        *_ways_on(spark, command, without),
    ]


def lost_lines(
    spark: str, step: str, error: str, left: str, command: str, without: str
) -> list[str]:
    """Return the message about a Spark that a run has lost.

    Args:
        spark: its name.
        step: the operation in which that happened.
        error: as for `cause`.
        left: the operations after that; "" where none was left.
        command, without: as for `unreachable_lines`.
    """
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
