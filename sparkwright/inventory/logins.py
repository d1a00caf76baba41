"""The files that SSH needs to log in, checked before any connection.

paramiko and pyinfra say little of a key that they cannot read, and only after they have connected.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_ssh_private_key,
)

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.yaml import lines_of

# No private key is larger.
_MOST_BYTES = 2**16
_MAGIC = b"openssh-key-v1\0"


def check_logins(
    path: Path,
    hosts: Sequence[tuple[str, dict[str, Any]]],
    key: str | None = None,
    passphrase: str | None = None,
) -> None:
    """Check the private keys and the known_hosts files of hosts.

    Raises:
        PlanError: All problems.
    """
    problems = [f"--ssh-key: {each}" for each in key_problems(key, passphrase)] if key else []
    for name, data in hosts:
        where = f"{path}: sparks.{data.get('spark') or name}"
        if not key and (own := data.get("ssh_key")):
            problems += [f"{where}.ssh_key: {each}" for each in key_problems(own, passphrase)]
        if known := data.get("ssh_known_hosts_file"):
            folder = Path(known).expanduser().parent
            if not folder.is_dir():
                problems.append(
                    f"{where}.ssh_known_hosts_file: found no folder {folder}; expected one"
                )
    with lines_of(path):
        if problems:
            raise PlanError(*problems)


def key_problems(name: str, passphrase: str | None) -> Iterator[str]:
    """Yield what is wrong with the file of a private key.

    Args:
        name: Its path.
        passphrase: That of the key; None where nothing gives one.
    """
    path = Path(name).expanduser()
    try:
        content = content_of(path, _MOST_BYTES)
    except FileNotFoundError:
        yield f"found no file {name}; expected a private key: ssh-keygen -t ed25519 makes one"
        return
    except OSError as error:
        yield f"found {name}, which cannot be read ({error.strerror}); expected a private key"
        return
    first = content.lstrip().partition(b"\n")[0].strip()
    if first.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        private = name.removesuffix(".pub") if name.endswith(".pub") else "the file without .pub"
        yield f"found {name}, a public key; expected the private one: {private}"
    elif first.startswith(b"PuTTY-User-Key-File"):
        yield (
            f"found {name}, a key of PuTTY; expected one of OpenSSH: puttygen {name} -O "
            "private-openssh -o KEY"
        )
    elif not (first.startswith(b"-----BEGIN ") and first.endswith(b"PRIVATE KEY-----")):
        yield f"found {name}, which is no key; expected a private key of OpenSSH"
    elif _is_encrypted(content):
        if not passphrase and not _has_terminal():
            yield (
                f"found {name}, a key with a passphrase, and no terminal to ask for it; expected "
                f"it in an agent: ssh-add {name}, and no ssh_key here"
            )
    elif not _is_whole(content):
        yield f"found {name}, a key that is damaged or of an unknown kind; expected another"


def _is_encrypted(content: bytes) -> bool:
    if b"ENCRYPTED" in content[:200]:
        return True
    body = b"".join(line for line in content.splitlines() if b"-" not in line)
    try:
        decoded = base64.b64decode(body[:64])
    except binascii.Error:
        return False
    # Then comes the length of the cipher's name, in four bytes, and the name.
    return decoded.startswith(_MAGIC) and decoded[len(_MAGIC) + 4 :][:4] != b"none"


def _is_whole(content: bytes) -> bool:
    load = load_ssh_private_key if b"BEGIN OPENSSH" in content else load_pem_private_key
    try:
        load(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _has_terminal() -> bool:
    try:
        Path("/dev/tty").open("rb").close()
    except OSError:
        return False
    return True
