"""Reads the TLS certificate that the group data name, on the machine that runs pyinfra."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from deploys.plan.certificate import Certificate, parse_certificate
from deploys.plan.errors import PlanError


def read_certificate(certificate: str | None, key: str | None) -> Certificate | None:
    """Read and check a certificate and its private key; None where there is to be no TLS.

    Args:
        certificate: Path of a PEM file: the server's certificate, and those up to its root.
        key: Path of a PEM file.

    Raises:
        PlanError: Only one is named, a file cannot be read, or they are no good: see
            `parse_certificate`.
    """
    if not certificate and not key:
        return None
    if not certificate or not key:
        there, missing = ("tls_certificate", "tls_key")[:: 1 if certificate else -1]
        raise PlanError(f"group_data: {missing}: found nothing; expected it beside {there}")
    # The command line makes a number of what looks like one.
    files = _read("tls_certificate", str(certificate)), _read("tls_key", str(key))
    return parse_certificate(*files, now=datetime.now(UTC))


def chains(named: Iterable[tuple[str | None, str | None]]) -> str:
    """Return what doors show their clients, for one who is to trust them; no private key is in it.

    Args:
        named: For each door what `read_certificate` takes.

    Raises:
        PlanError: As `read_certificate`.
    """
    found = [read_certificate(*pair) for pair in dict.fromkeys(named)]
    return "".join(dict.fromkeys(each.chain for each in found if each))


def _read(name: str, path: str) -> tuple[str, bytes]:
    try:
        return path, Path(path).expanduser().read_bytes()
    except OSError as error:
        raise PlanError(
            f"group_data: {name}: found {path}, which cannot be read ({error.strerror}); "
            "expected a PEM file on the machine that runs pyinfra"
        ) from None
