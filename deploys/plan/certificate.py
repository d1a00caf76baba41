"""The TLS certificate of a door: the owner's or the site's own, and whether it can be shown."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from deploys.plan.errors import PlanError

# As long before its end a run says so: Let's Encrypt renews 30 days before.
NOTICE = timedelta(days=30)
# Bits of an RSA key below which OpenSSL, as Ubuntu and Debian set it, shows no certificate
# (security level 2: openssl's SSL_CTX_set_security_level(3)).
SHORTEST_RSA = 2048
# How a private key begins in the PEM that is made here: behind all that others may see.
PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----"
# A host name, as certificates and URLs write it: letters, digits and hyphens between dots.
_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")


@dataclass(frozen=True)
class Tls:
    """The settings of TLS in the group data.

    Attributes:
        own: The site's own authority signs the certificates of doors and gateway.
        certificate, key: Paths of the owner's PEM files; None without them.
        names: Names by which clients ask for a server, beside those of the inventory.
    """

    own: bool
    certificate: str | None
    key: str | None
    names: tuple[str, ...] = ()

    @property
    def on(self) -> bool:
        """Tell whether servers speak https."""
        return self.own or bool(self.certificate)


def tls_settings(setting: Callable[[str], object]) -> Tls:
    """Check what the group data say of TLS.

    Args:
        setting: Gives a value of the group data by its name.

    Raises:
        PlanError: A value cannot be, or two contradict each other.
    """
    word, names = setting("tls"), setting("tls_names") or ()
    # The command line makes a number of what looks like one.
    certificate, key = (
        str(path) if (path := setting(name)) else None for name in ("tls_certificate", "tls_key")
    )
    if word not in (None, "own"):
        raise _refused("tls", repr(word), '"own", for certificates of the site\'s own, or None')
    if not isinstance(names, list | tuple) or not all(
        isinstance(each, str) and (_is_address(each) or _HOST.fullmatch(each)) for each in names
    ):
        raise _refused("tls_names", repr(names), 'host names and addresses, as in ("llm.lan",)')
    if word and (certificate or key):
        raise _refused("tls", 'tls = "own" beside tls_certificate or tls_key', "one of the two")
    if bool(certificate) != bool(key):
        there, missing = ("tls_certificate", "tls_key")[:: 1 if certificate else -1]
        raise _refused(missing, "nothing", f"it beside {there}")
    return Tls(word == "own", certificate, key, tuple(names))


def server_names(tls: Tls, names: Iterable[str | None], bind: object = None) -> tuple[str, ...]:
    """Return the names and addresses that the own certificate of a server is to have.

    Args:
        tls: The settings.
        names: Those of the inventory, the first of which names the certificate.
        bind: The address on which the server listens.

    Returns:
        Also the name of the machine in multicast DNS, by which DGX OS announces itself.
    """
    plain = [each for each in names if each and (_is_address(each) or _HOST.fullmatch(each))]
    multicast = [f"{each}.local" for each in plain if not _is_address(each) and "." not in each]
    own = [str(bind)] if _is_address(str(bind)) and str(bind) not in ("0.0.0.0", "::") else []
    return tuple(dict.fromkeys([*plain, *multicast, *tls.names, *own, "localhost", "127.0.0.1"]))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Certificate:
    """The certificate of a door, with its private key.

    Attributes:
        source: The file that it came from.
        pem: The certificate, those between it and its root, and the private key.
        ends: When it expires.
    """

    source: str
    pem: str = field(repr=False)
    ends: datetime

    @property
    def chain(self) -> str:
        """The certificates alone, which all may know."""
        return self.pem.partition(PRIVATE_KEY)[0]

    def notice(self, now: datetime) -> str | None:
        """Say that it expires soon; None while there is time.

        Args:
            now: The time, with its zone.
        """
        if self.ends - now > NOTICE:
            return None
        return f"{self.source} expires on {_day(self.ends)}: renew it, and deploy again."


def parse_certificate(
    certificate: tuple[str, bytes], key: tuple[str, bytes], now: datetime
) -> Certificate:
    """Check a certificate and its private key.

    Args:
        certificate: Path and content of a PEM file, the server's own certificate first.
        key: Path and content of a PEM file.
        now: The time, with its zone.

    Raises:
        PlanError: One is unreadable, they are of two pairs, the key is too short, or the
            certificate is not valid now.
    """
    path, content = certificate
    try:
        chain = x509.load_pem_x509_certificates(content)
    except ValueError:
        raise _refused(
            "tls_certificate", f"{path}, which is no certificate", "a PEM file"
        ) from None
    key_path, key_content = key
    try:
        secret = load_pem_private_key(key_content, None)
    except TypeError:
        remedy = f"one without a password: openssl pkey -in {key_path} -out NEW"
        raise _refused("tls_key", f"{key_path}, which a password protects", remedy) from None
    except (ValueError, UnsupportedAlgorithm):
        raise _refused("tls_key", f"{key_path}, which is no private key", "a PEM file") from None
    if isinstance(secret, rsa.RSAPrivateKey) and secret.key_size < SHORTEST_RSA:
        raise _refused(
            "tls_key",
            f"{key_path}, an RSA key of {secret.key_size} bits",
            f"at least {SHORTEST_RSA}, and a new certificate for it",
        )
    own = chain[0]
    public = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if own.public_key().public_bytes(*public) != secret.public_key().public_bytes(*public):
        raise _refused(
            "tls_key",
            f"{key_path}, which is not the key of {path}",
            "the key that the certificate was made for, and the server's own certificate as the "
            "first one of its file",
        )
    begins, ends = own.not_valid_before_utc, own.not_valid_after_utc
    if now >= ends:
        raise _refused("tls_certificate", f"{path}, which expired on {_day(ends)}", "a new one")
    if now < begins:
        raise _refused(
            "tls_certificate",
            f"{path}, which is valid from {_day(begins)} on",
            f"one that is valid now ({_day(now)} by this machine's clock)",
        )
    parts = [each.public_bytes(Encoding.PEM) for each in chain]
    parts.append(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return Certificate(path, b"".join(parts).decode(), ends)


def _refused(key: str, found: str, expected: str) -> PlanError:
    return PlanError(f"group_data: {key}: found {found}; expected {expected}")


def _day(time: datetime) -> str:
    return time.astimezone(UTC).date().isoformat()
