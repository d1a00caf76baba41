"""What the program of a switch decides, and looks at before it begins."""

import json
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from host.engine.switch import units
from host.engine.switch.candidate import DISK, Refusal, check
from host.engine.switch.state import find_previous, fits_beside

ALONE: dict[str, Any] = {"fabric": [], "rank": 0}
PAIR: dict[str, Any] = ALONE | {"fabric": [["a", "b"], ["c", "d"]]}


@pytest.mark.parametrize(
    ("boots", "running", "current", "found"),
    [
        ([], [], "", (None, False)),
        (["a"], ["a"], "a", ("a", True)),
        (["a"], [], "a", ("a", False)),
        # Started by hand, as is the new one.
        ([], ["new", "a"], "", ("a", True)),
        (["new"], ["a"], "a", (None, False)),
        # Of two that boot, the one that runs, else the current one.
        (["a", "b"], ["b"], "a", ("b", True)),
        (["a", "b"], [], "b", ("b", False)),
    ],
)
def test_which_one_it_is(
    boots: list[str], running: list[str], current: str, found: tuple[str | None, bool]
) -> None:
    assert find_previous("new", boots, running, current, {}, "boot-2") == found


@pytest.mark.parametrize(
    ("previous", "boot", "ran", "found"),
    [
        ("a", "boot-2", True, True),
        ("a", "boot-2", False, False),
        # It has had a boot since, and its own start.
        ("a", "boot-1", True, False),
        ("b", "boot-2", True, False),
    ],
)
def test_one_that_a_killed_switch_has_stopped_is_to_run(
    previous: str, boot: str, ran: bool, found: bool
) -> None:
    last = {"previous": previous, "boot": boot, "ran": ran}
    assert find_previous("new", ["a"], [], "a", last, "boot-2") == ("a", found)
    del last["ran"]
    assert find_previous("new", ["a"], [], "a", last, "boot-2") == ("a", False)


@pytest.mark.parametrize(
    ("unit", "theirs", "fits"),
    [
        (ALONE, ALONE, True),
        (PAIR, ALONE, False),
        (ALONE, PAIR, False),
        # Nothing is known of it.
        (ALONE, {}, False),
    ],
)
def test_side_by_side(unit: dict[str, Any], theirs: dict[str, Any], fits: bool) -> None:
    assert fits_beside(unit, theirs) is fits


Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize("full", ["root", "docker"])
def test_every_disk_that_an_engine_writes_to_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    docker, root = tmp_path / "docker", tmp_path / "root"
    release = root / "releases/tiny-1"
    release.mkdir(parents=True)
    docker.mkdir()
    (release / "unit.json").write_text("{}")
    (release / "release.json").write_text(json.dumps({"port": 1, "checkpoints": {}}))
    (release / "bin").mkdir()
    (release / "bin/engine").touch()
    monkeypatch.setattr("host.engine.switch.candidate.DOCKER", docker)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: Usage(0, 0, DISK - (path == tmp_path / full))
    )
    with pytest.raises(Refusal, match=f"1.0 GB are free at {tmp_path / full}; expected 1"):
        check(root, "tiny-1")


def test_a_line_of_the_history_that_was_cut_off_misleads_nobody(tmp_path: Path) -> None:
    """Of a model on demand its last line says what should serve."""
    for folder in ("manifests", "state"):
        (tmp_path / folder).mkdir()
    own = {"seat": "", "on_demand": True, "rank": 0}
    (tmp_path / "manifests/turns.json").write_text(json.dumps({"replicas": {"x": own}}))
    (tmp_path / "state/history").write_bytes(b"1 old-1\n2\n3 tiny-1\n4 ti\xff ny\n")
    assert units.enabled(tmp_path) == ["tiny-1"]
