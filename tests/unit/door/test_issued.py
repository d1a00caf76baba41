"""Keys and certificates that the doors of a host have, before a run makes new ones."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from host.state import door
from sparkwright.door.authority import new_authority, signed
from tests.unit.certificates import certificate, private_key

NOW = datetime.now(UTC)


def read(root: Path) -> set[str]:
    return {name for name, has in door.issued(str(root)).items() if has}


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
