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
    chains,
    read_certificate,
    server_certificate,
)
from tests.unit.certificates import certificate, private_key, written

NOW = datetime.now(UTC)


def read(folder: Path) -> object:
    return read_certificate(str(folder / "tls.crt"), str(folder / "tls.key"))


def test_certificate_and_key_become_one_file(tmp_path: Path) -> None:
    key, above = private_key(), private_key()
    written(tmp_path, certificate(key, days=90) + certificate(above, days=900), key)
    found = read_certificate(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    assert found
    assert found.pem.count("BEGIN CERTIFICATE") == 2
    assert found.pem.count("BEGIN PRIVATE KEY") == 1
    assert "PRIVATE" not in repr(found)
    assert found.chain == (tmp_path / "tls.crt").read_text()
    assert [*found.notices(NOW)] == []
    assert "tls.crt expires on" in next(found.notices(NOW + timedelta(days=61)))


def test_no_tls_is_no_certificate(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "sparks.yaml", {}, {})
    assert server_certificate(fleet, Settings(), "door-chat", ()) is None


def test_bad_ones_are_refused(tmp_path: Path) -> None:
    key = private_key()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def refused(chain: bytes, secret: bytes) -> str:
        (tmp_path / "tls.crt").write_bytes(chain)
        (tmp_path / "tls.key").write_bytes(secret)
        with pytest.raises(PlanError) as raised:
            read(tmp_path)
        return str(raised.value)

    good = certificate(key, days=90)
    with pytest.raises(PlanError, match=r"tls_certificate: .*tls.crt: found a file that cannot be"):
        read(tmp_path)
    own = Settings(tls_certificate="7", tls_key="k")
    with pytest.raises(PlanError, match="tls_certificate: 7: found a file that cannot be read"):
        server_certificate(Fleet(tmp_path, {}, {}), own, "door-chat", ())
    assert "tls.crt: found no certificate" in refused(b"", pem)
    assert "tls.crt: found no certificate" in refused(pem, pem)
    assert "tls.key: found no private key" in refused(good, good)
    assert "tls.key: found not the key of" in refused(certificate(private_key(), days=9), pem)
    assert "a certificate that expired on" in refused(certificate(key, days=-1), pem)
    assert "a certificate that is valid from" in refused(certificate(key, days=90, begins=1), pem)
    closed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pw"))
    assert "found a key that a password protects" in refused(good, closed)


def test_one_that_was_signed_this_second_is_valid(tmp_path: Path) -> None:
    written(tmp_path, certificate(key := private_key(), days=90, begins=0), key)
    assert read(tmp_path)


def test_an_rsa_key_that_no_door_would_show_is_refused(tmp_path: Path) -> None:
    def pair(bits: int) -> None:
        key = rsa.generate_private_key(65537, bits)
        (tmp_path / "tls.crt").write_bytes(certificate(key, days=90))
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / "tls.key").write_bytes(pem)

    pair(1024)
    with pytest.raises(PlanError, match=r"tls_key: .*tls.key: found an RSA key of 1024 bits; expe"):
        read(tmp_path)
    pair(2048)
    assert read(tmp_path)


def test_the_key_may_lie_in_the_file_of_the_certificate(tmp_path: Path) -> None:
    """As haproxy itself has it. Only the door gets it."""
    written(tmp_path, certificate(key := private_key(), days=90), key)
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "tls.key").read_bytes() + (tmp_path / "tls.crt").read_bytes())
    # The gateway trusts what it shows. Nobody but the door gets the key.
    assert (
        chains([read_certificate(str(both), str(both)), None, read_certificate(*[str(both)] * 2)])
        == (tmp_path / "tls.crt").read_text()
    )
    both.unlink()
    with pytest.raises(
        PlanError, match=r"tls_certificate: .*both.pem: found a file that cannot be"
    ):
        read_certificate(str(both), str(both))


def test_the_servers_own_certificate_comes_first(tmp_path: Path) -> None:
    key = private_key()
    written(tmp_path, certificate(private_key(), days=900) + certificate(key, days=90), key)
    with pytest.raises(PlanError, match="the server's own certificate as the first one"):
        read(tmp_path)
