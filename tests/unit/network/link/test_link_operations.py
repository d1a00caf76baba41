"""The two Sparks of a pair come to know each other: on this machine, and on fake hosts."""

import getpass
import logging
from pathlib import Path

import pytest

from sparkwright.network.link.deploy import identity, pinned
from tests.unit.driven import Driven, fake_host, this_machine

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
        return this_machine(root=str(root), spark="spark-a")

    assert machine().predicts_change(identity)
    assert machine().run(identity).did_change()
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
    result = this_machine(root=str(root), spark="spark-a").run(identity)
    assert result.did_error()
    assert f"{root}/link/own.crt: Is a directory. Move it away" in result.stderr
    assert (root / "secrets/link.key").read_text() == "mine"


@needs_root
def test_the_certificate_of_the_other_is_pinned(root: Path) -> None:
    with fake_host(state={"network.link": FIT}, spark="spark-b").current() as peer:
        assert this_machine(root=str(root)).predicts_change(pinned, peer=peer)
        assert this_machine(root=str(root)).run(pinned, peer=peer).did_change()
        assert (root / "link/peer.crt").read_text() == CERTIFICATE
        spark = this_machine(root=str(root))
        assert not spark.run(pinned, peer=peer).did_change()
        assert len(spark.commands) == 1
    newer = FIT | {"certificate": CERTIFICATE.replace("MIIB", "MIIC")}
    with fake_host(state={"network.link": newer}, spark="spark-b").current() as peer:
        assert this_machine(root=str(root)).run(pinned, peer=peer).did_change()
    assert "MIIC" in (root / "link/peer.crt").read_text()


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
        assert spark.predicts_change(pinned, peer=peer)
        assert spark.run(pinned, peer=peer).did_error()
    assert f"spark-b shows no certificate: {problem}" in spark.scripts()[-1]
