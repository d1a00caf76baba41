"""TLS certificates on the machine that runs pyinfra: the owner's, or the site's own authority.

The authority lies beside the inventory, in a folder that git does not see: `ca.crt` is what clients
are given, `ca.pem` and the certificates of the servers hold private keys.
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

_KEYS, _SHOWN = "ca.pem", "ca.crt"


def authority_folder(fleet: Path) -> Path:
    """Where the authority of an inventory file is: ``sparks.yaml`` -> ``sparks.tls``."""
    return fleet.with_suffix(".tls")


def authority_file(fleet: Path) -> Path:
    """Return the file that a client is to trust: `curl --cacert FILE`."""
    return authority_folder(fleet) / _SHOWN


def server_certificate(
    settings: Settings, fleet: Path, server: str, names: Sequence[str], record: bool = True
) -> Certificate | None:
    """Return what a server shows its clients; None where there is to be no TLS.

    The site's own is signed where there is none, where its names are others now, and long before
    it ends.

    Args:
        settings: Those of its host.
        fleet: The inventory file.
        server: What the certificate's file is named by: a replica, or the gateway.
        names: Names and addresses of an own certificate: see `server_names`.
        record: Write new ones down; in a dry run they stand for those that a run would make.

    Raises:
        PlanError: A file cannot be read or written, or it is no good: see `parse_certificate`.
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
        PlanError: A file cannot be read, or they are no good: see `parse_certificate`.
    """
    files = _read("tls_certificate", certificate), _read("tls_key", key)
    return parse_certificate(*files, now=datetime.now(UTC))


def door_certificate(
    fleet: Fleet, replica: str, settings: Settings, record: bool = True
) -> Certificate | None:
    """Return what the door of a replica shows its clients; None where there is to be no TLS.

    Args:
        fleet: The fleet.
        replica: The replica's name.
        settings: The replica's.
        record: As `server_certificate` takes it.

    Raises:
        PlanError: As `server_certificate`.
    """
    head = fleet.replicas[replica].sparks[0]
    names = server_names(settings, (fleet.sparks[head].ssh_hostname, head, replica))
    return server_certificate(settings, fleet.source, f"door-{replica}", names, record)


def chains(certificates: Iterable[Certificate | None]) -> str:
    """Return what servers show their clients, for one who is to trust them; without private keys.

    Args:
        certificates: What `server_certificate` returned for each.
    """
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
            f"{_SHOWN} from a backup, or delete the folder; the next run then creates a new "
            f"authority, and all clients need its {_SHOWN}"
        ) from None
    chain, key = text.partition(PRIVATE_KEY)[::2]
    return parse_certificate(
        (str(file), chain.encode()), (str(file), (PRIVATE_KEY + key).encode()), now=now
    )


def _make(folder: Path, authority: str) -> None:
    """Make the folder of an authority in one step: of several runs at a time, one makes it."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new = Path(temporary) / folder.name
        new.mkdir(mode=0o700)
        write_file(new / _KEYS, authority, 0o600)
        write_file(new / _SHOWN, authority.partition(PRIVATE_KEY)[0])
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
