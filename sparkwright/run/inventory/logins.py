"""The files that SSH needs to log in, checked before any connection.

paramiko and pyinfra say little of a key that they cannot read, and only after they have connected.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.yaml import lines_of
from sparkwright.run.inventory.selection import Host

# No private key is larger.
_MOST_BYTES = 2**16


def check_logins(path: Path, hosts: Sequence[Host], key: str | None = None) -> None:
    """Check the files of hosts: their private keys, or the command line's own, and known_hosts."""
    problems = [f"--ssh-key: {found}"] if key and (found := key_problem(key)) else []
    for name, data in hosts:
        where = f"{path}: sparks.{data.get('spark') or name}"
        if not key and (own := data.get("ssh_key")) and (found := key_problem(own)):
            problems.append(f"{where}.ssh_key: {found}")
        if known := data.get("ssh_known_hosts_file"):
            folder = Path(known).expanduser().parent
            if not folder.is_dir():
                problems.append(
                    f"{where}.ssh_known_hosts_file: found no folder {folder}; expected one"
                )
    with lines_of(path):
        if problems:
            raise PlanError(*problems)


def key_problem(name: str) -> str:
    """Return what is wrong with the file of a private key; "" where it looks like one."""
    try:
        first = content_of(Path(name).expanduser(), _MOST_BYTES).lstrip().partition(b"\n")[0]
    except FileNotFoundError:
        return f"found no file {name}; expected a private key: ssh-keygen -t ed25519 makes one"
    except OSError as error:
        return f"found {name}, which cannot be read ({error.strerror}); expected a private key"
    if first.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        private = name.removesuffix(".pub") if name.endswith(".pub") else "the file without .pub"
        return f"found {name}, a public key; expected the private one: {private}"
    if not (first.startswith(b"-----BEGIN ") and first.rstrip().endswith(b"PRIVATE KEY-----")):
        return f"found {name}, which is no key; expected a private key of OpenSSH"
    return ""
