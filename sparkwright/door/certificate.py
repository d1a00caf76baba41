"""The TLS certificate of a door, the owner's or the site's own, and its checks."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from sparkwright.common.errors import PlanError
from sparkwright.door.authority import private_pem
from sparkwright.fleet.setting_values import is_address, is_host
from sparkwright.fleet.settings import Settings

# A run warns this long before the end: Let's Encrypt renews 30 days before.
NOTICE = timedelta(days=30)
# Bits of an RSA key below which OpenSSL, as Ubuntu and Debian configure it, refuses a certificate
# (security level 2: openssl's SSL_CTX_set_security_level(3)).
SHORTEST_RSA = 2048
# Begins the private key in `Certificate.pem`; all before it is public.
PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----"


def server_names(settings: Settings, names: Iterable[str | None]) -> tuple[str, ...]:
    """Return the names and addresses for a server's certificate of the site's own authority.

    Args:
        settings: Those of its host.
        names: Those of the inventory; the first names the certificate.

    Returns:
        Also the machine's name in multicast DNS, by which DGX OS announces itself.
    """
    plain = [each for each in names if each and is_host(each)]
    multicast = [f"{each}.local" for each in plain if not is_address(each) and "." not in each]
    own = [] if settings.bind in ("0.0.0.0", "::") else [settings.bind]
    all_names = [*plain, *multicast, *settings.tls_names, *own, "localhost", "127.0.0.1"]
    return tuple(dict.fromkeys(all_names))


@dataclass(frozen=True)
class Certificate:
    """The certificate of a door, with its private key.

    Attributes:
        source: Its file.
        pem: The certificate, those between it and its root, and the private key.
        ends: When it expires.
    """

    source: str
    pem: str = field(repr=False)
    ends: datetime

    @property
    def chain(self) -> str:
        """The certificates without the private key."""
        return self.pem.partition(PRIVATE_KEY)[0]

    def notice(self, now: datetime) -> str | None:
        """Return the notice that it expires soon; None while there is time.

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
        PlanError: One is unreadable, they do not belong together, the key is too short, or the
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
    if own.public_key() != secret.public_key():
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
    certificates = b"".join(each.public_bytes(Encoding.PEM) for each in chain).decode()
    return Certificate(path, certificates + private_pem(secret), ends)


def _refused(key: str, found: str, expected: str) -> PlanError:
    return PlanError(f"group_data: {key}: found {found}; expected {expected}")


def _day(time: datetime) -> str:
    return time.astimezone(UTC).date().isoformat()
