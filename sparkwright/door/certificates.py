"""TLS certificates on the machine that runs pyinfra: the owner's, or the site's own authority.

The authority is beside the inventory, in a folder that git ignores: clients get `ca.crt`; `ca.pem`
and the certificates of the servers contain private keys.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of, write_file
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.setting_values import is_address, is_host
from sparkwright.declared.fleet.settings import Settings
from sparkwright.door.authority import is_due, new_authority, private_pem, signable, signed

_KEYS, _PUBLIC = "ca.pem", "ca.crt"
# A run warns this long before the end: Let's Encrypt renews 30 days before.
NOTICE = timedelta(days=30)
# Bits of an RSA key below which OpenSSL, as Ubuntu and Debian configure it, refuses a certificate
# (security level 2: openssl's SSL_CTX_set_security_level(3)).
SHORTEST_RSA = 2048
# Begins the private key in `Certificate.pem`; all before it is public.
PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----"


def server_names(settings: Settings, names: Iterable[str | None]) -> tuple[str, ...]:
    """Return the names and addresses for a server's certificate of the site's own authority.

    They include the machine's name in multicast DNS, by which DGX OS announces itself.
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
        unsigned: Names of the server that the site's authority may not sign.
    """

    source: str
    pem: str = field(repr=False)
    ends: datetime
    unsigned: tuple[str, ...] = ()

    @property
    def chain(self) -> str:
        """The certificates without the private key."""
        return self.pem.partition(PRIVATE_KEY)[0]

    def notices(self, now: datetime) -> Iterator[str]:
        """Yield the notices that it expires soon, or lacks names."""
        if self.ends - now <= NOTICE:
            yield f"{self.source} expires on {_day(self.ends)}: renew it, and deploy again."
        if self.unsigned:
            yield (
                f"{self.source} lacks {', '.join(self.unsigned)}: the site's authority signs "
                "private names and addresses, and the names that the site had when it was made. To "
                f"use the others, empty {Path(self.source).parent} and deploy: clients need the "
                f"new {_PUBLIC}."
            )


def read_certificate(path: str, key_path: str) -> Certificate:
    """Return a certificate, unless it is invalid, or does not belong to the private key."""
    content, key_content = _content("tls_certificate", path), _content("tls_key", key_path)
    try:
        chain = x509.load_pem_x509_certificates(content)
    except ValueError:
        raise _refused(path, "no certificate; expected a PEM file") from None
    try:
        secret = load_pem_private_key(key_content, None)
    except TypeError:
        found = "a key that a password protects; expected one without: openssl pkey -in"
        raise _refused(key_path, f"{found} {key_path} -out NEW", "tls_key") from None
    except (ValueError, UnsupportedAlgorithm):
        raise _refused(key_path, "no private key; expected a PEM file", "tls_key") from None
    if isinstance(secret, rsa.RSAPrivateKey) and secret.key_size < SHORTEST_RSA:
        found = f"an RSA key of {secret.key_size} bits; expected at least {SHORTEST_RSA}"
        raise _refused(key_path, f"{found}, and a new certificate for it", "tls_key")
    if chain[0].public_key() != secret.public_key():
        found = f"not the key of {path}; expected the key that the certificate was made for, and"
        first = "the server's own certificate as the first one of its file"
        raise _refused(key_path, f"{found} {first}", "tls_key")
    certificates = b"".join(each.public_bytes(Encoding.PEM) for each in chain).decode()
    return Certificate(path, certificates + private_pem(secret), _end(path, chain[0]))


def _end(path: str, certificate: x509.Certificate) -> datetime:
    """Return the end of a certificate that is valid now."""
    now = datetime.now(UTC)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now >= ends:
        raise _refused(path, f"a certificate that expired on {_day(ends)}; expected a new one")
    if now < begins:
        found = f"a certificate that is valid from {_day(begins)} on; expected one that is valid"
        raise _refused(path, f"{found} now ({_day(now)} by this machine's clock)")
    return ends


def _content(setting: str, path: str) -> bytes:
    try:
        return content_of(Path(path).expanduser())
    except OSError as error:
        found = f"a file that cannot be read ({error.strerror}); expected a PEM file"
        raise _refused(path, f"{found} on this machine", setting) from None


def _refused(path: str, found: str, key: str = "tls_certificate") -> PlanError:
    return PlanError(f"group_data: {key}: {path}: found {found}")


def _day(time: datetime) -> str:
    return time.astimezone(UTC).date().isoformat()


def authority_folder(fleet: Path) -> Path:
    """Where the authority of an inventory file is: ``sparks.yaml`` -> ``sparks.tls``."""
    return fleet.with_suffix(".tls")


def authority_file(fleet: Path) -> Path:
    """Return the file for clients to trust: `curl --cacert FILE`."""
    return authority_folder(fleet) / _PUBLIC


def server_certificate(
    fleet: Fleet, settings: Settings, server: str, hosts: Iterable[str | None], record: bool = True
) -> Certificate | None:
    """Return the certificate of a server; None without TLS.

    The site's own authority signs one if there is none, if its names have changed, and long before
    it ends.

    Args:
        server: Name of the certificate's file: of a door, or the gateway.
        hosts: Names and addresses of the server.
        record: Write a new one to its file, unlike in a dry run.
    """
    if settings.tls != "own":
        if settings.tls_certificate and settings.tls_key:
            return read_certificate(settings.tls_certificate, settings.tls_key)
        return None
    names = server_names(settings, hosts)
    folder, now = authority_folder(fleet.source), datetime.now(UTC)
    file = folder / f"{server}.pem"
    try:
        # An owner who wants a new one has made an empty folder: `check_authority`. Another run may
        # just write to it.
        authority = ""
        if is_new := not any(folder.glob("[!.]*")):
            # All servers that a site has or may have.
            machines = [*fleet.sparks.values(), *([fleet.gateway] if fleet.gateway else [])]
            addresses = (each.ssh_hostname for each in machines)
            site = server_names(settings, [*fleet.replicas, *fleet.sparks, "gateway", *addresses])
            authority = new_authority(fleet.source.stem, [*names, *site], now)
        if is_new and record:
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)
            write_file(folder / _KEYS, authority, 0o600, only_new=True)
        if record or not is_new:
            # Of several runs at once, one has made it.
            authority = (folder / _KEYS).read_text("utf-8")
        text = file.read_text("utf-8") if file.exists() else ""
        allowed = signable(authority, names)
        if record:
            write_file(folder / _PUBLIC, authority.partition(PRIVATE_KEY)[0], only_new=True)
        if is_due(text, authority, allowed, now):
            text = signed(authority, allowed, now)
            if record:
                write_file(file, text, 0o600)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise PlanError(
            f"{folder}: the certificate authority is unusable ({why}): restore {_KEYS} and "
            f"{_PUBLIC} from a backup, or delete the folder; the next run then creates a new "
            f"authority, and all clients need its {_PUBLIC}"
        ) from None
    ends = _end(str(file), x509.load_pem_x509_certificate(text.encode()))
    return Certificate(str(file), text, ends, tuple(each for each in names if each not in allowed))


def door_certificate(
    fleet: Fleet, replica: str, settings: Settings, record: bool = True
) -> Certificate | None:
    """Return the certificate of a replica's door; None without TLS."""
    head = fleet.replicas[replica].sparks[0]
    hosts = (fleet.sparks[head].ssh_hostname, head, replica)
    return server_certificate(fleet, settings, f"door-{replica}", hosts, record)


def chains(certificates: Iterable[Certificate | None]) -> str:
    """Return the certificates of servers, for a client that is to trust them, without keys."""
    return "".join(dict.fromkeys(each.chain for each in certificates if each))
