"""The site's own certificate authority, which signs certificates of doors and gateway."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Apple's systems refuse certificates that live longer, also of authorities that a user has added:
# support.apple.com/en-us/103769.
LIFE = timedelta(days=825)
# A run renews a certificate this long before its end: one deploy a year is enough.
RENEWAL = timedelta(days=400)
AUTHORITY_LIFE = timedelta(days=20 * 365)
# Certificates begin this much earlier, for clients whose clocks are behind.
_EARLIER = timedelta(days=1)
# What an authority may sign beside the names of its site: domains that no public authority serves
# (RFC 6761, 6762, 8375; ICANN's resolution on .internal; routers' .lan), and the addresses of
# private networks (RFC 1918, 3927, 4193, 4291, 6598). Whoever steals its key impersonates no server
# of the web to those who trust it.
_PRIVATE_DOMAINS = ("localhost", "local", "lan", "internal", "home.arpa")
_PRIVATE_NETWORKS = (
    *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.168.0.0/16", "::1/128", "fc00::/7", "fe80::/10"),
)


def new_authority(site: str, names: Sequence[str], now: datetime) -> str:
    """Make an authority for private names and these: its certificate, then its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Sparkwright: {site}")
    builder = x509.CertificateBuilder(name, name, key.public_key())
    allowed = dict.fromkeys((*_PRIVATE_DOMAINS, *_PRIVATE_NETWORKS, *names))
    builder = builder.add_extension(
        x509.NameConstraints([_general_name(each, ip_network) for each in allowed], None),
        critical=True,
    )
    return _signed(builder, key, key, now, now + AUTHORITY_LIFE, signs=True) + private_pem(key)


def signed(authority: str, names: Sequence[str], now: datetime) -> str:
    """Make a certificate for a server: itself, its authority's, then its private key, as PEM."""
    above, secret = _read(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(above.subject, _name(names[0]), key.public_key())
    # Python 3.13 refuses a certificate without its authority's identifier (VERIFY_X509_STRICT).
    for extension in (
        _names(names),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(secret.public_key()),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
    ):
        builder = builder.add_extension(extension, critical=False)
    ends = min(now + LIFE, above.not_valid_after_utc)
    own = _signed(builder, key, secret, now, ends, signs=False)
    return own + _pem(above) + private_pem(key)


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    now: datetime,
    ends: datetime,
    signs: bool,
) -> str:
    """Return a signed certificate as PEM; `signs` tells that it is an authority's."""
    usage = {
        "digital_signature": not signs,
        "key_cert_sign": signs,
        "crl_sign": signs,
        **dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment"), False),
        **dict.fromkeys(("key_agreement", "encipher_only", "decipher_only"), False),
    }
    constraints = x509.BasicConstraints(ca=signs, path_length=0 if signs else None)
    own_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = builder.add_extension(constraints, critical=True)
    builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
    builder = builder.add_extension(own_id, critical=False)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _EARLIER).not_valid_after(ends)
    return _pem(builder.sign(signer, hashes.SHA256()))


def signable(authority: str, names: Sequence[str]) -> list[str]:
    """Return those of the names that an authority may sign."""
    above, _ = _read(authority)
    found = above.extensions.get_extension_for_class(x509.NameConstraints).value
    allowed = found.permitted_subtrees or []
    return [name for name in names if any(_within(name, each.value) for each in allowed)]


def _within(name: str, allowed: Any) -> bool:
    """Tell whether a name is in a domain, or an address in a network."""
    try:
        address = ip_address(name)
    except ValueError:
        return isinstance(allowed, str) and f".{name.lower()}".endswith(f".{allowed.lower()}")
    return not isinstance(allowed, str) and address in allowed


def is_due(server: str, authority: str, names: Sequence[str], now: datetime) -> bool:
    """Tell whether a server needs a new certificate."""
    above, _ = _read(authority)
    try:
        own, of = x509.load_pem_x509_certificates(server.encode())
        key = load_pem_private_key(server.encode(), None)
        found = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return True
    longer = min(now + LIFE, above.not_valid_after_utc) - own.not_valid_after_utc
    late = own.not_valid_after_utc - now < RENEWAL and longer > _EARLIER
    paired = key.public_key() == own.public_key()
    return late or not paired or of != above or found != _names(names)


def _read(authority: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return an authority's certificate and key; a ValueError tells that it is invalid."""
    above = x509.load_pem_x509_certificate(authority.encode())
    secret = load_pem_private_key(authority.encode(), None)
    if not isinstance(secret, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is of another kind")
    if secret.public_key() != above.public_key():
        raise ValueError("the authority's certificate and key are of two pairs")
    return above, secret


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_general_name(each) for each in dict.fromkeys(names)])


def _general_name(name: str, kind: Callable[[str], Any] = ip_address) -> x509.GeneralName:
    try:
        return x509.IPAddress(kind(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def private_pem(key: PrivateKeyTypes) -> str:
    """Return an unencrypted private key, as PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
