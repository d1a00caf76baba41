"""The owner's certificate, and the site's own authority: what it signs, and when anew."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
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
from sparkwright.door import certificates
from sparkwright.door.authority import AUTHORITY_LIFE, LIFE, RENEWAL, is_due, new_authority, signed
from sparkwright.door.certificates import (
    Certificate,
    authority_file,
    chains,
    read_certificate,
    server_certificate,
    server_names,
)
from tests.unit.certificates import certificate, private_key

NOW = datetime.now(UTC)
NAMES = ("spark-a", "192.168.1.20")
OWN = Settings(tls="own")


def made(folder: Path, *names: str, record: bool = True) -> Certificate:
    fleet = Fleet(folder / "sparks.yaml", {}, {})
    found = server_certificate(fleet, OWN, "door-chat", names or NAMES, record)
    assert found
    return found


def test_a_run_makes_it_once_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    assert made(tmp_path, record=False).pem
    assert not list(tmp_path.iterdir())
    first = made(tmp_path)
    folder = tmp_path / "sparks.tls"
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    assert modes == {"ca.pem": 0o600, "ca.crt": 0o644, "door-chat.pem": 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [each.name for each in tmp_path.iterdir()] == ["sparks.tls"]
    authority = authority_file(tmp_path / "sparks.yaml").read_text()
    assert "PRIVATE" not in authority
    assert first.chain.endswith(authority)
    assert made(tmp_path, "other.lan", record=False) != first
    assert made(tmp_path) == first
    assert [*first.notices(NOW)] == []


def test_of_several_runs_at_once_one_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*given: Any) -> str:
        monkeypatch.undo()
        made(tmp_path)
        return new_authority(*given)

    monkeypatch.setattr(certificates, "new_authority", late)
    assert made(tmp_path).chain.endswith(authority_file(tmp_path / "sparks.yaml").read_text())


def test_other_names_or_another_authority_need_another_certificate(tmp_path: Path) -> None:
    first = made(tmp_path)
    renamed = made(tmp_path, *NAMES, "llm.lan")
    assert renamed != first
    authority = new_authority("sparks", NAMES, NOW)
    server = signed(authority, NAMES, NOW)
    assert not is_due(server, authority, NAMES, NOW)
    assert is_due(server, new_authority("sparks", NAMES, NOW), NAMES, NOW)
    chain, mark, _ = server.partition("-----BEGIN PRIVATE")
    another = signed(authority, NAMES, NOW).partition(mark)
    for cut in ("", server[:300], chain, chain + mark + another[2]):
        assert is_due(cut, authority, NAMES, NOW)


def test_it_is_renewed_long_before_it_ends() -> None:
    authority = new_authority("sparks", NAMES, NOW)
    server = signed(authority, NAMES, NOW)
    assert not is_due(server, authority, NAMES, NOW + LIFE - RENEWAL - timedelta(days=1))
    late = NOW + LIFE - RENEWAL + timedelta(days=1)
    assert is_due(server, authority, NAMES, late)
    assert not is_due(signed(authority, NAMES, late), authority, NAMES, late)
    # None outlives its authority, and the last one is not made anew each time.
    end = NOW + AUTHORITY_LIFE
    late = end - timedelta(days=20)
    server = signed(authority, NAMES, late)
    last = x509.load_pem_x509_certificate(server.encode())
    assert abs(last.not_valid_after_utc - end) < timedelta(seconds=2)
    assert not is_due(server, authority, NAMES, late + timedelta(days=1))


def test_it_signs_the_site_and_private_names_and_clients_believe_it_no_others(
    tmp_path: Path,
) -> None:
    private = ("10.0.0.9", "nas.local", "llm.home.arpa", "fd00::7")
    made(tmp_path)
    found = made(tmp_path, *NAMES, *private, "www.bank.example", "spark-z", "8.8.8.8")
    assert found.unsigned == ("www.bank.example", "spark-z", "8.8.8.8")
    (lacks,) = found.notices(NOW)
    assert "door-chat.pem lacks www.bank.example, spark-z, 8.8.8.8" in lacks
    for name in (*NAMES, *private):
        server, client = _handshake(found, tmp_path, name)
        assert client.getpeercert()
        assert server.version() == "TLSv1.3"
    for stranger in ("spark-b", "192.168.1.21"):
        with pytest.raises(ssl.SSLCertVerificationError):
            _handshake(found, tmp_path, stranger)
    # A thief of the key signs what he likes.
    authority = (tmp_path / "sparks.tls" / "ca.pem").read_text()
    for name in ("www.bank.example", "evil.spark-a.example", "8.8.8.8", "2001:db8::1"):
        forged = Certificate("forged", signed(authority, [name], NOW), NOW)
        with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
            _handshake(forged, tmp_path, name)


def test_an_owner_who_wants_another_authority_leaves_the_folder_empty(tmp_path: Path) -> None:
    first = made(tmp_path)
    folder = tmp_path / "sparks.tls"
    for each in folder.iterdir():
        each.unlink()
    assert made(tmp_path, record=False).chain != first.chain
    assert list(folder.iterdir()) == []
    assert made(tmp_path).chain != first.chain
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def _handshake(found: Certificate, folder: Path, name: str) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Let a client who trusts the authority shake hands with a server, in memory."""
    (folder / "server.pem").write_text(found.pem)
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(folder / "server.pem")
    asks = ssl.create_default_context(cafile=str(authority_file(folder / "sparks.yaml")))
    # The default as of Python 3.13.
    asks.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serves.wrap_bio(there, back, server_side=True)
    client = asks.wrap_bio(back, there, server_hostname=name)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return server, client


@pytest.mark.parametrize("content", ["", "nonsense"])
def test_an_authority_that_is_lost_is_named(tmp_path: Path, content: str) -> None:
    made(tmp_path)
    (tmp_path / "sparks.tls" / "ca.pem").write_text(content)
    with pytest.raises(
        PlanError, match=r"sparks\.tls: the certificate authority .* need its ca.crt"
    ):
        made(tmp_path)
    (tmp_path / "sparks.tls" / "ca.pem").unlink()
    with pytest.raises(PlanError, match=r"\(No such file or directory\)"):
        made(tmp_path)


def test_names_are_those_by_which_clients_may_ask() -> None:
    own = Settings(tls="own", tls_names=("llm.example.org",))
    assert server_names(own, ("192.168.1.20", "spark-a", "chat")) == (
        *("192.168.1.20", "spark-a", "chat", "spark-a.local", "chat.local"),
        *("llm.example.org", "localhost", "127.0.0.1"),
    )
    assert "10.0.0.7" in server_names(
        own.model_copy(update={"bind": "10.0.0.7"}), (None, "spark-a", "chat")
    )
    assert "a_b" not in server_names(own, ("a_b", "spark-a"))


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


@pytest.mark.parametrize(
    ("contents", "told"),
    [
        ((), "tls_certificate: .*tls.crt: found a file that cannot be read"),
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


def test_an_rsa_key_and_one_that_was_signed_this_second_are_valid(tmp_path: Path) -> None:
    assert read(tmp_path, *weak(2048))
    assert read(tmp_path, certificate(KEY, days=90, begins=0), PEM)


def test_the_key_may_lie_in_the_file_of_the_certificate(tmp_path: Path) -> None:
    """As haproxy itself has it. The gateway trusts what it shows; only the door gets the key."""
    (both := tmp_path / "both.pem").write_bytes(PEM + GOOD)
    found = read_certificate(str(both), str(both))
    assert chains([found, None, found]) == GOOD.decode()
