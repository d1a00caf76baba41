"""Certificates for tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def private_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    days: int,
    begins: int = -10,
    named: bool = True,
) -> bytes:
    """A self-signed certificate, as PEM; it begins and ends so many days from now.

    Unless it is `named` for 127.0.0.1, it has a common name alone, as of long ago.
    """
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "spark.example")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now + timedelta(days=begins))
    builder = builder.not_valid_after(now + timedelta(days=days))
    if named:
        builder = builder.add_extension(address, False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def written(folder: Path, chain: bytes, key: ec.EllipticCurvePrivateKey) -> None:
    """Write tls.crt and tls.key."""
    (folder / "tls.crt").write_bytes(chain)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "tls.key").write_bytes(secret)
