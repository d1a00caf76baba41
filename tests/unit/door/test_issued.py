"""Keys and certificates that the doors of a host have, before a run makes new ones."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparkwright.door.authority import new_authority, signed
from sparkwright.door.state import issued_script, parse_issued
from tests.unit.certificates import certificate, private_key

NOW = datetime.now(UTC)


def read(root: Path) -> set[str]:
    done = subprocess.run(
        ["sh", "-c", issued_script(str(root))], capture_output=True, text=True, check=True
    )
    return parse_issued(done.stdout.splitlines())


def test_a_door_without_keys_has_none(tmp_path: Path) -> None:
    root = tmp_path / "my sparks"
    assert read(root) == set()
    (root / "door").mkdir(parents=True)
    (root / "door/door.cfg").write_text("x")
    # All of the fleet's keys are for other doors.
    (root / "gateway/door").mkdir(parents=True)
    (root / "gateway/door/keys").touch()
    # An owner's own certificate is none of a site's authority.
    (root / "door/certificate.pem").write_bytes(certificate(private_key(), days=90))
    assert read(root) == set()


@pytest.mark.parametrize("name", ["door", "door/seats/chat", "gateway/door"])
def test_what_doors_have_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "keys").write_text("HASH owner:9999999999\n")
    assert read(tmp_path) == {"keys"}
    own = signed(new_authority("sparks", ["spark-a"], NOW), ["spark-a"], NOW)
    (tmp_path / name / "certificate.pem").write_text(own)
    assert read(tmp_path) == {"keys", "certificate"}


def test_what_was_not_read_to_the_end_is_an_error() -> None:
    for output in ([], ["keys"]):
        with pytest.raises(ValueError, match="expected"):
            parse_issued(output)
