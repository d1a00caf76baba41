"""The owner's certificate: the right key, the right time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.settings import Settings
from sparkwright.door.certificates import (
    Certificate,
    chains,
    read_certificate,
    server_certificate,
)
from tests.unit.certificates import certificate, private_key

NOW = datetime.now(UTC)
KEY = private_key()
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
CLOSED = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pw"))
GOOD = certificate(KEY, days=90)


def weak(bits: int) -> tuple[bytes, bytes]:
    """Return a certificate and its RSA key."""
    key = rsa.generate_private_key(65537, bits)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate(key, days=90), pem


def read(folder: Path, *contents: bytes) -> Certificate:
    """Write a certificate and a key, where they are given, and read them."""
    paths = [folder / "tls.crt", folder / "tls.key"]
    for path, content in zip(paths, contents, strict=False):
        path.write_bytes(content)
    return read_certificate(*map(str, paths))


def test_certificate_and_key_become_one_file(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD + certificate(private_key(), days=900), PEM)
    assert found.pem.count("BEGIN CERTIFICATE") == 2
    assert found.pem.count("BEGIN PRIVATE KEY") == 1
    assert "PRIVATE" not in repr(found)
    assert found.chain == (tmp_path / "tls.crt").read_text()
    assert [*found.notices(NOW)] == []
    assert "tls.crt expires on" in next(found.notices(NOW + timedelta(days=61)))


def test_no_tls_is_no_certificate(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "sparks.yaml", {}, {})
    assert server_certificate(fleet, Settings(), "door-chat", ()) is None


@pytest.mark.parametrize(
    ("contents", "told"),
    [
        ((), "tls_certificate: .*tls.crt: found a file that cannot be read"),
        ((b"", PEM), "tls.crt: found no certificate"),
        ((PEM, PEM), "tls.crt: found no certificate"),
        ((GOOD, GOOD), "tls.key: found no private key"),
        ((GOOD, CLOSED), "found a key that a password protects"),
        ((certificate(private_key(), days=9), PEM), "tls.key: found not the key of"),
        # The server's own comes first.
        (
            (certificate(private_key(), days=900) + GOOD, PEM),
            "the server's own certificate as the first one",
        ),
        ((certificate(KEY, days=-1), PEM), "a certificate that expired on"),
        ((certificate(KEY, days=90, begins=1), PEM), "a certificate that is valid from"),
        # No door would show it.
        (weak(1024), "tls_key: .*tls.key: found an RSA key of 1024 bits; expected at least 2048"),
    ],
)
def test_bad_ones_are_refused(tmp_path: Path, contents: tuple[bytes, ...], told: str) -> None:
    with pytest.raises(PlanError, match=told):
        read(tmp_path, *contents)


def test_settings_name_the_files(tmp_path: Path) -> None:
    own = Settings(tls_certificate="7", tls_key="k")
    with pytest.raises(PlanError, match="tls_certificate: 7: found a file that cannot be read"):
        server_certificate(Fleet(tmp_path, {}, {}), own, "door-chat", ())


def test_an_rsa_key_and_one_that_was_signed_this_second_are_valid(tmp_path: Path) -> None:
    assert read(tmp_path, *weak(2048))
    assert read(tmp_path, certificate(KEY, days=90, begins=0), PEM)


def test_the_key_may_lie_in_the_file_of_the_certificate(tmp_path: Path) -> None:
    """As haproxy itself has it. The gateway trusts what it shows; only the door gets the key."""
    (both := tmp_path / "both.pem").write_bytes(PEM + GOOD)
    found = read_certificate(str(both), str(both))
    assert chains([found, None, found]) == GOOD.decode()
