"""TLS certificates on the machine that runs pyinfra: the owner's, or the site's own authority.

The authority is beside the inventory, in a folder that git ignores: clients get `ca.crt`; `ca.pem`
and the certificates of the servers contain private keys.
"""

import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import write_file
from sparkwright.door.authority import is_due, new_authority, signed
from sparkwright.door.certificate import PRIVATE_KEY, Certificate, parse_certificate, server_names
from sparkwright.fleet.fleet import Fleet
from sparkwright.fleet.settings import Settings

_KEYS, _PUBLIC = "ca.pem", "ca.crt"


def authority_folder(fleet: Path) -> Path:
    """Where the authority of an inventory file is: ``sparks.yaml`` -> ``sparks.tls``."""
    return fleet.with_suffix(".tls")


def authority_file(fleet: Path) -> Path:
    """Return the file for clients to trust: `curl --cacert FILE`."""
    return authority_folder(fleet) / _PUBLIC


def server_certificate(
    settings: Settings, fleet: Path, server: str, names: Sequence[str], record: bool = True
) -> Certificate | None:
    """Return the certificate of a server; None without TLS.

    One of the site's own authority is signed if there is none, if its names have changed, and long
    before it ends.

    Args:
        settings: Those of its host.
        fleet: The inventory file.
        server: Name of the certificate's file: of a door, or the gateway.
        names: Names and addresses for a certificate of the site's own: see `server_names`.
        record: Write a new one to its file, unlike in a dry run.

    Raises:
        PlanError: A file cannot be read or written, or is invalid: see `parse_certificate`.
    """
    if settings.tls == "own":
        return _own(fleet, server, names, record)
    if not settings.tls_certificate or not settings.tls_key:
        return None
    return read_certificate(settings.tls_certificate, settings.tls_key)


def read_certificate(certificate: str, key: str) -> Certificate:
    """Read and check a certificate and its private key.

    Args:
        certificate: Path of a PEM file: the server's certificate, and those up to its root.
        key: Path of a PEM file.

    Raises:
        PlanError: A file cannot be read, or is invalid: see `parse_certificate`.
    """
    files = _read("tls_certificate", certificate), _read("tls_key", key)
    return parse_certificate(*files, now=datetime.now(UTC))


def door_certificate(
    fleet: Fleet, replica: str, settings: Settings, record: bool = True
) -> Certificate | None:
    """Return the certificate of a replica's door; None without TLS.

    Args:
        fleet: The fleet.
        replica: The replica's name.
        settings: The replica's.
        record: As for `server_certificate`.

    Raises:
        PlanError: As `server_certificate`.
    """
    head = fleet.replicas[replica].sparks[0]
    names = server_names(settings, (fleet.sparks[head].ssh_hostname, head, replica))
    return server_certificate(settings, fleet.source, f"door-{replica}", names, record)


def chains(certificates: Iterable[Certificate | None]) -> str:
    """Return the certificates of servers, for a client that is to trust them, without keys."""
    return "".join(dict.fromkeys(each.chain for each in certificates if each))


def _own(fleet: Path, server: str, names: Sequence[str], record: bool) -> Certificate:
    folder, now = authority_folder(fleet), datetime.now(UTC)
    file = folder / f"{server}.pem"
    try:
        if not folder.exists() and record:
            _make(folder, new_authority(fleet.stem, now))
        there = folder.exists()
        authority = (folder / _KEYS).read_text() if there else new_authority(fleet.stem, now)
        text = file.read_text() if file.exists() else ""
        if is_due(text, authority, names, now):
            text = signed(authority, names, now)
            if record:
                write_file(file, text, 0o600)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise PlanError(
            f"{folder}: the certificate authority is unusable ({why}): restore {_KEYS} and "
            f"{_PUBLIC} from a backup, or delete the folder; the next run then creates a new "
            f"authority, and all clients need its {_PUBLIC}"
        ) from None
    chain, key = text.partition(PRIVATE_KEY)[::2]
    return parse_certificate(
        (str(file), chain.encode()), (str(file), (PRIVATE_KEY + key).encode()), now=now
    )


def _make(folder: Path, authority: str) -> None:
    """Make the folder of an authority in one step; of several runs at once, one makes it."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new = Path(temporary) / folder.name
        new.mkdir(mode=0o700)
        write_file(new / _KEYS, authority, 0o600)
        write_file(new / _PUBLIC, authority.partition(PRIVATE_KEY)[0])
        try:
            new.rename(folder)
        except OSError:
            if not (folder / _KEYS).exists():
                raise


def _read(name: str, path: str) -> tuple[str, bytes]:
    try:
        return path, Path(path).expanduser().read_bytes()
    except OSError as error:
        raise PlanError(
            f"group_data: {name}: found {path}, which cannot be read ({error.strerror}); "
            "expected a PEM file on the machine that runs pyinfra"
        ) from None
