"""What a door is to be, and how its state is read."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from host.state import door as state
from sparkwright.declared.fleet.settings import LONGEST_HOLD, settings_of
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import BySparks
from sparkwright.door.authority import new_authority, signed
from sparkwright.door.door import mark
from tests.makers.door import KEY, OTHER, own_certificate, plan
from tests.unit.certificates import certificate, private_key


def test_what_is_in_force_is_told_by_all_that_it_is_made_of(tmp_path: Path) -> None:
    tls = own_certificate(tmp_path)
    changes = ({}, {"keys": [OTHER]}, {"keys": None}, {"certificate": tls})
    plans = [plan(8001), *(plan(8000, **each) for each in changes)]
    marks = {mark(each.files("/r")) for each in plans}
    assert len(marks) == len(plans)
    for each in plans:
        texts = "".join(text or "" for text in each.files("/r").values())
        assert KEY not in texts
        assert OTHER not in texts


@pytest.mark.parametrize(
    ("recipe", "sparks", "owners", "seconds"),
    [
        # Its start takes 720 s, and clients wait for 600.
        ("qwen3.5-122b-nvfp4-mtp", 2, None, LONGEST_HOLD),
        ("qwen3.6-35b-nvidia", 1, None, LONGEST_HOLD),
        # It is up within 300 s, or its start has failed.
        ("lab-tiny", 1, None, 300),
        ("qwen3.5-122b-nvfp4-mtp", 1, 1800, 1800),
        ("lab-tiny", 1, 0, 0),
    ],
)
def test_how_long_a_request_waits(
    recipe: str, sparks: int, owners: int | None, seconds: int
) -> None:
    served = load_recipe(recipe).for_sparks(sparks)
    assert settings_of({"hold_seconds": owners}).hold(served.start_timeout) == seconds
    # A start may depend on the number of Sparks.
    own = load_recipe("lab-tiny").model_copy(
        update={"by_sparks": {str(sparks): BySparks(start_timeout=200)}}
    )
    assert settings_of({}).hold(own.for_sparks(sparks).start_timeout) == 200
    assert settings_of({}).hold(own.for_sparks(3 - sparks).start_timeout) == 300


def issued(root: Path) -> set[str]:
    """What the doors of a host have, before a run makes new ones."""
    return {name for name, has in state.issued(str(root)).items() if has}


def test_a_door_without_keys_has_none(tmp_path: Path) -> None:
    root = tmp_path / "my sparks"
    assert issued(root) == set()
    (root / "door").mkdir(parents=True)
    (root / "door/door.cfg").write_text("x")
    # All of the fleet's keys are for other doors.
    (root / "gateway/door").mkdir(parents=True)
    (root / "gateway/door/keys").touch()
    # An owner's own certificate is none of a site's authority.
    (root / "door/certificate.pem").write_bytes(certificate(private_key(), days=90))
    assert issued(root) == set()


@pytest.mark.parametrize("name", ["door", "door/seats/chat", "gateway/door"])
def test_what_doors_have_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "keys").write_text("HASH owner:9999999999\n")
    assert issued(tmp_path) == {"keys"}
    now = datetime.now(UTC)
    own = signed(new_authority("sparks", ["spark-a"], now), ["spark-a"], now)
    (tmp_path / name / "certificate.pem").write_text(own)
    assert issued(tmp_path) == {"keys", "certificate"}
