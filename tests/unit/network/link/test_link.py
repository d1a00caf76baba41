"""The two Sparks of a pair come to know each other: by the very scripts and TLS of a Spark."""

import getpass
import json
import logging
import shutil
import socket
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from host.engine.peer_link import Group
from host.state import network
from sparkwright.network.link.deploy import Identity, identity, new_identity_script, pinned
from tests.unit.driven import Driven, fake_host, here

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
FIT = {"state": "fit", "certificate": CERTIFICATE}

needs_root = pytest.mark.skipif(getpass.getuser() != "root", reason="the files belong to root")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "link").mkdir()
    (tmp_path / "secrets").mkdir(mode=0o700)
    return tmp_path


def test_a_key_is_made_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def machine() -> Driven:
        return here(root=str(root), spark="spark-a")

    assert machine().predicts_change(identity)
    assert machine().run(identity).did_change()
    assert (root / "secrets/link.key").stat().st_mode & 0o777 == 0o600
    assert (root / "link/own.crt").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in (root / "secrets").iterdir()] == ["link.key"]
    key = (root / "secrets/link.key").read_text()
    spark = machine()
    assert not spark.run(identity).did_change()
    assert len(spark.commands) == 1
    assert (root / "secrets/link.key").read_text() == key
    assert key.splitlines()[1] not in caplog.text
    (root / "link/own.crt").unlink()
    assert machine().run(identity).did_change()
    assert (root / "secrets/link.key").read_text() != key


def test_what_cannot_be_read_is_not_replaced(root: Path) -> None:
    (root / "link/own.crt").mkdir()
    (root / "secrets/link.key").write_text("mine")
    result = here(root=str(root), spark="spark-a").run(identity)
    assert result.did_error()
    assert f"{root}/link/own.crt: Is a directory. Move it away" in result.stderr
    assert (root / "secrets/link.key").read_text() == "mine"


@needs_root
def test_the_certificate_of_the_other_is_pinned(root: Path) -> None:
    with fake_host(state={"network.link": FIT}, spark="spark-b").current() as peer:
        assert here(root=str(root)).predicts_change(pinned, peers=[peer])
        assert here(root=str(root)).run(pinned, peers=[peer]).did_change()
        assert (root / "link/peer.crt").read_text() == CERTIFICATE
        spark = here(root=str(root))
        assert not spark.run(pinned, peers=[peer]).did_change()
        assert len(spark.commands) == 1
    newer = FIT | {"certificate": CERTIFICATE.replace("MIIB", "MIIC")}
    with fake_host(state={"network.link": newer}, spark="spark-b").current() as peer:
        assert here(root=str(root)).run(pinned, peers=[peer]).did_change()
        newer_text = (root / "link/peer.crt").read_text()
        assert "MIIC" in newer_text
        with fake_host(state={"network.link": FIT}, spark="spark-c").current() as third:
            assert here(root=str(root)).run(pinned, peers=[peer, third]).did_change()
    assert (root / "link/peer.crt").read_text() == newer_text + CERTIFICATE


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"state": "absent"}, "its key is absent"),
        ({"state": "unfit"}, "its key is unfit"),
        ({"state": "unreadable", "detail": "/k: Input/output error"}, "/k: Input/output error"),
    ],
)
def test_without_one_a_dry_run_sees_a_change_and_a_run_fails(
    said: dict[str, str], problem: str
) -> None:
    spark = fake_host(spark="spark-a")
    with fake_host(state={"network.link": said}, spark="spark-b").current() as peer:
        assert spark.predicts_change(pinned, peers=[peer])
        assert spark.run(pinned, peers=[peer]).did_error()
    assert f"spark-b shows no certificate: {problem}" in spark.scripts()[-1]


def _make(root: Path, spark: str) -> Identity:
    script = new_identity_script(str(root), spark)
    subprocess.run(["sh", "-c", script], check=True, capture_output=True)
    return _read(root)


def _read(root: Path) -> Identity:
    said = json.dumps(network.link(str(root)))
    assert "PRIVATE" not in said
    return Identity.model_validate_json(said)


def test_the_dates_fit_any_clock(root: Path) -> None:
    _make(root, "spark-a")
    shown = ["openssl", "x509", "-in", root / "link/own.crt", "-noout", "-dates", "-subject"]
    said = subprocess.check_output(shown, text=True)
    assert "notBefore=Jan  1 00:00:00 1970 GMT" in said
    assert "notAfter=Jan  1 00:00:00 2125 GMT" in said
    assert "CN = spark-a" in said


def test_half_of_a_new_one_is_unfit_and_made_again(root: Path) -> None:
    previous = _make(root, "spark-a")
    key = (root / "secrets/link.key").read_text()
    # As if the power went between the two: the certificate is new, the key is not yet.
    _make(root, "spark-a")
    (root / "secrets/link.key").write_text(key)
    (root / "secrets/link.new").mkdir()
    (root / "secrets/link.new/key").write_text("half")
    assert _read(root) == Identity(state="unfit")
    made = _make(root, "spark-a")
    assert made.certificate not in (None, previous.certificate)
    assert not (root / "secrets/link.new").exists()


@pytest.mark.parametrize(
    ("path", "text"),
    [("secrets/link.key", ""), ("secrets/link.key", "no key\n"), ("link/own.crt", "")],
)
def test_what_is_no_key_or_certificate_is_unfit(root: Path, path: str, text: str) -> None:
    _make(root, "spark-a")
    (root / path).write_text(text)
    assert _read(root) == Identity(state="unfit")
    (root / path).unlink()
    assert _read(root) == Identity(state="absent")
    assert _make(root, "spark-a").state == "fit"
    (root / "secrets/link.key").chmod(0o640)
    assert _read(root) == Identity(state="unfit")


def test_a_failure_leaves_the_previous_one(root: Path) -> None:
    previous = _make(root, "spark-a")
    script = new_identity_script(str(root), "spark-a").replace("genpkey", "no-such-command")
    assert subprocess.run(["sh", "-c", script], capture_output=True).returncode != 0
    assert _read(root) == previous


def test_one_without_a_certificate_is_not_let_in(root: Path) -> None:
    """Of TLS 1.3, a refusal comes with the answer."""
    _make(root, "spark-a")
    shutil.copy(root / "link/own.crt", root / "link/peer.crt")
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.load_verify_locations(root / "link/own.crt")
    near, far = socket.socketpair()
    near.settimeout(5)
    far.settimeout(5)
    with near, far, ThreadPoolExecutor() as pool:
        head = Group(root, "r-1", 0, ("spark-a", "spark-b"), ("", "")).tls()
        served = pool.submit(head.wrap_socket, far, server_side=True)
        with nobody.wrap_socket(near) as stream, pytest.raises(ssl.SSLError):
            stream.recv(5)
        with pytest.raises(ssl.SSLError):
            served.result()
