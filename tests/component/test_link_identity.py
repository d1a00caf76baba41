"""A Spark's key and certificate, by the very scripts that a Spark runs, and by Python's TLS."""

import json
import shutil
import socket
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from host.engine.peer_link import Pair
from host.state import network
from sparkwright.network.link.deploy import Identity, new_identity_script

PAIR = ("spark-a", "spark-b")


def _root(path: Path) -> Path:
    (path / "link").mkdir(parents=True)
    (path / "secrets").mkdir(mode=0o700)
    return path


def _make(root: Path, spark: str) -> Identity:
    script = new_identity_script(str(root), spark)
    subprocess.run(["sh", "-c", script], check=True, capture_output=True)
    return _read(root)


def _read(root: Path) -> Identity:
    said = json.dumps(network.link(str(root)))
    assert "PRIVATE" not in said
    return Identity.model_validate_json(said)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return _root(tmp_path / "a root")


def test_makes_a_key_that_only_its_owner_reads(root: Path) -> None:
    assert _read(root) == Identity(state="absent")
    made = _make(root, "spark-a")
    assert made.state == "fit"
    assert made.certificate == (root / "link/own.crt").read_text()
    assert (root / "secrets/link.key").stat().st_mode & 0o777 == 0o600
    assert (root / "link/own.crt").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in (root / "secrets").iterdir()] == ["link.key"]


def test_the_dates_fit_any_clock(root: Path) -> None:
    _make(root, "spark-a")
    said = subprocess.run(
        ["openssl", "x509", "-in", root / "link/own.crt", "-noout", "-dates", "-subject"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
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


def test_a_key_that_others_read_is_unfit(root: Path) -> None:
    _make(root, "spark-a")
    (root / "secrets/link.key").chmod(0o640)
    assert _read(root) == Identity(state="unfit")


def test_what_cannot_be_read_is_not_absent(root: Path) -> None:
    (root / "secrets/link.key").mkdir()
    detail = f"{root}/secrets/link.key: Is a directory"
    assert _read(root) == Identity(state="unreadable", detail=detail)


def test_a_failure_leaves_the_previous_one(root: Path) -> None:
    previous = _make(root, "spark-a")
    script = new_identity_script(str(root), "spark-a").replace("genpkey", "no-such-command")
    assert subprocess.run(["sh", "-c", script], capture_output=True).returncode != 0
    assert _read(root) == previous


def _greet(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str | None, bytes]:
    """Return the protocol and what the client heard; in TLS 1.3 a refusal comes with the answer."""
    near, far = socket.socketpair()
    near.settimeout(5)
    far.settimeout(5)

    def serve() -> None:
        with server.wrap_socket(far, server_side=True) as stream:
            stream.sendall(b"hello")

    with ThreadPoolExecutor() as pool:
        served = pool.submit(serve)
        try:
            with client.wrap_socket(near) as stream:
                heard = stream.version(), stream.recv(5)
        finally:
            near.close()
        served.result()
    return heard


@pytest.fixture(scope="module")
def sparks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The two of a pair, each with the other's certificate, and one that has those of both."""
    roots = {name: _root(tmp_path_factory.mktemp(name) / "root") for name in (*PAIR, "stranger")}
    for name, root in roots.items():
        # The name in it counts for nothing: a stranger may write any.
        _make(root, "spark-b" if name == "stranger" else name)
    for name, peer in (PAIR, PAIR[::-1], ("stranger", "spark-a")):
        shutil.copy(roots[peer] / "link/own.crt", roots[name] / "link/peer.crt")
    return roots


def _tls(root: Path, rank: int) -> ssl.SSLContext:
    return Pair(root, "r-1", rank, PAIR, ("", "")).tls()


def test_the_two_let_each_other_in(sparks: dict[str, Path]) -> None:
    for head, worker in (PAIR, PAIR[::-1]):
        found = _greet(_tls(sparks[head], 0), _tls(sparks[worker], 1))
        assert found == ("TLSv1.3", b"hello")


def test_neither_a_stranger_nor_one_without_a_certificate_is_let_in(
    sparks: dict[str, Path],
) -> None:
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.load_verify_locations(sparks["spark-a"] / "link/own.crt")
    for client in (_tls(sparks["stranger"], 1), nobody):
        with pytest.raises(ssl.SSLError):
            _greet(_tls(sparks["spark-a"], 0), client)
    # Nor does a worker talk to a stranger.
    with pytest.raises(ssl.SSLCertVerificationError):
        _greet(_tls(sparks["stranger"], 0), _tls(sparks["spark-b"], 1))
