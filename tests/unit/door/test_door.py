"""What a door is to be, how its state is read, and what a deploy does to it, on fake hosts."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from host.state import door as part
from sparkwright.common.files import Directory, ManagedFile
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.settings import LONGEST_HOLD, settings_of
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.door.authority import new_authority, signed
from sparkwright.door.door import DoorPlan, mark
from sparkwright.door.operations import door, no_door
from tests.makers import door as maker
from tests.makers.door import FILES, KEY, NO_DOOR, OTHER, own_certificate
from tests.unit.certificates import certificate, private_key
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
    return maker.plan(8000, **{"bind": "0.0.0.0", **changes})


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


def test_what_is_in_force_is_told_by_all_that_it_is_made_of(tmp_path: Path) -> None:
    tls = own_certificate(tmp_path)
    changes = ({}, {"keys": [OTHER]}, {"keys": None}, {"certificate": tls})
    plans = [maker.plan(8001), *(plan(**each) for each in changes)]
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


def issued(root: Path) -> set[str]:
    """What the doors of a host have, before a run makes new ones."""
    return {name for name, has in part.issued(str(root)).items() if has}


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
