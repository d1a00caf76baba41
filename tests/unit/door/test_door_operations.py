"""What a deploy does to a door, on fake hosts: in which order, and what it tells to whom."""

from pathlib import Path
from typing import Any

import pytest

from host.state import placed as placed_part
from sparkwright.common.files import Directory, ManagedFile
from sparkwright.common.placed import Place
from sparkwright.common.render import unit_file
from sparkwright.door.door import DoorPlan, door_folder, mark
from sparkwright.door.operations import door, no_door
from sparkwright.machine.host.state import ask_placed, asks_for
from tests.makers.door import FILES, KEY, NO_DOOR, own_certificate
from tests.makers.door import plan as planned
from tests.unit.driven import Driven, fake_host, file_of, placed

ROOT = "/r"
UNIT = unit_file(FILES / "door.service", root=ROOT)
PROGRAM = ManagedFile("/r/bin/sparkwright-host", "program")
FOLDERS = {"/r/bin": "755", "/r/door": "700"}
TEXTS: dict[str, Any] = {
    "folders": [*map(Directory, FOLDERS, FOLDERS.values()), PROGRAM],
    "unit": UNIT,
}


def plan(**changes: Any) -> DoorPlan:
    return planned(8000, **{"bind": "0.0.0.0", **changes})


def spark(of: DoorPlan | None = None, unit: str = "active enabled", **changes: Any) -> Driven:
    """A Spark whose door is as planned, or with None one without; its state may be another."""
    if of is None:
        return fake_host(state={"door": NO_DOOR}, root=ROOT)
    files = of.files(ROOT)
    there = {
        **{path: file_of("", mode, kind="directory") for path, mode in FOLDERS.items()},
        **{f"/r/door/{name}": file_of(text, "600") for name, text in files.items() if text},
        PROGRAM.path: file_of("program"),
        UNIT.path: file_of(UNIT.text, changed=1001 if "outdated" in unit else 0),
    }
    placement = placed(files=there, units={"door.service": f"loaded 1000 {unit}"})
    state = NO_DOOR | {
        "installed": "2.8.5-1",
        "version": "2.8.5-1",
        "mark": mark(files),
        "unit": placement["units"]["door.service"],
        **changes,
    }
    return fake_host(state={"door": state, "placed": placement}, root=ROOT)


def changes(host: Driven, of: DoorPlan) -> list[str]:
    """The commands that change something, in their order."""
    arguments = {"root": ROOT, "plan": of, **TEXTS}
    assert host.predicts_change(door, **arguments) == host.run(door, **arguments).did_change()
    return host.scripts()


def test_a_clean_host_gets_all_of_it_proved_before_it_is_in_force(tmp_path: Path) -> None:
    tls = own_certificate(tmp_path)
    done = changes(spark(), plan(certificate=tls))
    steps = [
        "apt-get install ",
        "disable --quiet --now haproxy.service",
        "cat > /r/door/next/keys",
        "cat > /r/door/next/certificate.pem",
        "cat > /r/door/next/door.cfg",
        "haproxy -c -C /r/door/next",
        "enable --quiet door.service",
        "restart door.service",
    ]
    found = [next(n for n, each in enumerate(done) if step in each) for step in steps]
    assert found == sorted(found)
    (proof,) = (each for each in done if "haproxy -c" in each)
    moves = [f"mv -f /r/door/next/{name}" for name in ("keys", "certificate.pem", "door.cfg")]
    found = [proof.index(each) for each in ("haproxy -c", *moves)]
    assert found == sorted(found)


def test_key_and_certificate_travel_by_standard_input_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    tls, host = own_certificate(tmp_path), spark()
    host.run(door, root=ROOT, plan=plan(certificate=tls), **TEXTS)
    assert [stdin for _, stdin in host.commands if stdin == tls.pem] == [tls.pem]
    secret = tls.pem.splitlines()[-2]
    everything = caplog.text + "".join(host.scripts())
    assert secret not in everything
    assert KEY not in everything + "".join(str(stdin) for _, stdin in host.commands)


@pytest.mark.parametrize(
    ("name", "said", "expected"),
    [
        ("mark", "0a", "reload door.service"),
        ("installed", "2.8.5-2", "reload door.service"),
        ("unit", "enabled", "start door.service"),
        ("unit", "active", "enable --quiet door.service"),
        ("stray", True, "disable --quiet --now haproxy.service"),
        ("unit", "active enabled outdated", "daemon-reload && systemctl restart door.service"),
    ],
)
def test_what_a_run_that_died_left_is_finished(name: str, said: Any, expected: str) -> None:
    assert changes(spark(plan(), **{name: said}), plan()) == [f"systemctl {expected}"]


def test_a_change_of_settings_is_a_reload_and_an_old_secret_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert changes(spark(plan()), plan()) == []
    assert "needs no key" not in caplog.text
    tls = own_certificate(tmp_path)
    done = changes(spark(plan(certificate=tls)), plan(keys=None))
    assert "rm -f /r/door/keys" in done[-2]
    assert "rm -f /r/door/certificate.pem" in done[-2]
    assert done[-1] == "systemctl reload door.service"
    assert "Port 8000 needs no key" in caplog.text


@pytest.mark.parametrize(
    ("name", "said", "told"),
    [
        ("taken", ["nginx (pid 7)"], "port 8000 is taken by nginx (pid 7)"),
        ("elsewhere", True, "found bind 0.0.0.0, which is no address of this host"),
    ],
)
def test_where_it_cannot_listen_nothing_is_changed(name: str, said: Any, told: str) -> None:
    host = spark(plan(), **{name: said})
    result = host.run(door, root=ROOT, plan=plan(), **TEXTS)
    assert result.did_error()
    (refusal,) = host.scripts()
    assert told in refusal


def test_a_spark_that_is_no_head_has_no_door() -> None:
    assert not spark().run(no_door, root=ROOT).did_change()
    host = spark(plan())
    assert host.run(no_door, root=ROOT).did_change()
    assert "disable --quiet --now door.service" in host.scripts()[-1]
    assert host.scripts()[-1].endswith("rm -rf /r/door")


@pytest.mark.parametrize("seat", ["", "code"])
def test_the_files_of_a_door_are_among_those_that_are_read(tmp_path: Path, seat: str) -> None:
    """A seat reaches them by a link, which nothing follows."""
    place = Place(str(tmp_path), seat)
    folder = Path(door_folder(place))
    folder.mkdir(parents=True)
    (folder / "keys").touch()
    if seat:
        Path(place).mkdir(parents=True)
        (Path(place) / "door").symlink_to(f"../../door/seats/{seat}")
    ((ask, _),) = asks_for(str(tmp_path), [f"{folder}/keys"]).items()
    assert ask.arguments == ask_placed(str(tmp_path)).arguments
    assert f"{folder}/keys" in placed_part.read(folders=ask.arguments["folders"])["files"]
    assert (Path(place) / "door/keys").samefile(folder / "keys")
