"""What a Spark says about a door that runs, and about who has its port."""

import json
from pathlib import Path

import pytest

from host.door import door as program
from host.state import door as part
from host.state import sockets
from sparkwright.door.door import DoorState, mark
from tests.component.door.running import Running, haproxy


def read(root: Path, **arguments: object) -> DoorState:
    return DoorState.model_validate_json(json.dumps(part.read(str(root), **arguments)))  # type: ignore[arg-type]


@haproxy
def test_a_door_that_runs_is_known_by_what_it_was_made_of(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "RUN", tmp_path / "units")
    # Each program on a Spark looks once.
    monkeypatch.setattr(sockets, "listening", sockets.listening.__wrapped__)  # type: ignore[attr-defined]
    (tmp_path / "units").mkdir()
    found = read(tmp_path, bind="192.0.2.1", port=running.port)
    assert (found.version, found.mark, found.stray, found.elsewhere) == ("", "", False, True)

    (tmp_path / "units/door").symlink_to("../run")
    found = read(tmp_path, bind="127.0.0.1", port=running.port)
    assert found.version == found.installed
    assert found.mark == mark(running.plan.files(str(tmp_path)))
    assert not found.elsewhere
    # This one is of no unit.
    assert {each.split()[0] for each in found.taken} == {"haproxy"}
    own = sockets.process(running.master)["cgroup"].rpartition("/")[2]
    assert part.taken(running.port, own) == []
    assert read(tmp_path).taken == ()


def test_haproxys_own_service_is_stray_where_we_brought_it_and_nobody_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"verify": ""}
    monkeypatch.setattr(part, "unit_states", lambda _: {"haproxy.service": {"file": "enabled"}})
    stray = part.stray.__wrapped__  # type: ignore[attr-defined]

    def run(*words: str) -> object:
        return type("Done", (), {"stdout": said[words[1].strip("-")]})

    monkeypatch.setattr(part, "run", run)
    (tmp_path / "state").mkdir()
    assert not stray(str(tmp_path))
    (tmp_path / "state/installed").write_text("earlyoom\nhaproxy\n")
    assert stray(str(tmp_path))
    said["verify"] = "??5?????? c /etc/haproxy/haproxy.cfg\n"
    assert not stray(str(tmp_path))
