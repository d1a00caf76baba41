"""What a deploy does to a door, on fake hosts: in which order, and what it tells to whom."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.files import Directory, ManagedFile
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.settings import Settings
from sparkwright.door.door import DoorPlan, mark
from sparkwright.door.operations import door, no_door
from tests.makers.door import named, own_certificate
from tests.unit.driven import Driven, fake_host, said_of_file
from tests.unit.units import said_of_units

FILES = Path(__file__).parents[3] / "files" / "host" / "door"
ROOT = "/r"
UNIT = unit_file(FILES / "door.service", root=ROOT)
PROGRAMS = [ManagedFile("/r/bin/sparkwright-host", "program")]
FOLDERS = [Directory("/r/bin"), Directory("/r/door", mode="700"), *PROGRAMS]
TEMPLATE = (FILES / "door.cfg").read_text()
TEXTS: dict[str, Any] = {"template": TEMPLATE, "folders": FOLDERS, "unit": UNIT}
KEY = "sk-0123456789abcdefghij"
CLEAN = "\n".join(
    [
        *(f"@@{name}" for name in ("installed", "stray", "elsewhere", "taken", "there", "files")),
        *said_of_units({"door.service": ""}),
        "@@running",
    ]
)


def plan(**changes: Any) -> DoorPlan:
    values = {"certificate": None, "keys": [KEY], "place": "chat", "hold_seconds": 480, **changes}
    values["keys"] = named(values["keys"])
    return DoorPlan(Settings(), port=8000, **values)


def spark(state: str) -> Driven:
    """A Spark whose door is like this, and which has the program and the unit."""
    folders = {"/r/bin": "755", "/r/door": "700"}
    lines = [f"stat\tdirectory\troot\troot\t{mode}\t{path}" for path, mode in folders.items()]
    lines += [line for file in (*PROGRAMS, UNIT) for line in said_of_file(file.path, file.text)]
    there = "\n".join(lines) if state != CLEAN else ""
    return fake_host({"@@installed": state, "follow=-L": there}, root=ROOT)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def settled(of: DoorPlan, **changes: str) -> str:
    """What a Spark says whose door is as planned; a section of it may be another."""
    files = of.files(TEMPLATE, ROOT)
    there = {f"/r/door/{name}": (text, 600) for name, text in files.items() if text}
    there |= {UNIT.path: (UNIT.text, 644)}
    hashes = [f"{digest(text)}  {path}" for path, (text, _) in there.items()]
    modes = [f"{mode}  {path}" for path, (_, mode) in there.items()]
    sections = {
        "installed": "2.8.5-1",
        "stray": "",
        "elsewhere": "",
        "taken": "",
        "there": "/r/door",
        "files": "\n".join([*hashes, *modes]),
        "unit": "active enabled",
        "running": f"version 2.8.5-1\nmark {mark(files)}",
        **changes,
    }
    unit = said_of_units({"door.service": sections.pop("unit")})
    parts = [f"@@{name}\n{text}".strip() for name, text in sections.items()]
    return "\n".join([*parts, *unit])


def changes(state: str, of: DoorPlan) -> list[str]:
    """The commands that change something, in their order."""
    host = spark(state)
    arguments = {"root": ROOT, "plan": of, **TEXTS}
    assert host.predicts_change(door, **arguments) == host.run(door, **arguments).did_change()
    facts = ("@@installed", "follow=-L")
    return [script for script in host.scripts() if not any(fact in script for fact in facts)]


def test_a_clean_host_gets_all_of_it_proved_before_it_is_in_force(tmp_path: Path) -> None:
    tls = own_certificate(tmp_path)
    done = changes(CLEAN, plan(certificate=tls))
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
    assert [proof.index(each) for each in ("haproxy -c", *moves)] == sorted(
        proof.index(each) for each in ("haproxy -c", *moves)
    )


def test_key_and_certificate_travel_by_standard_input_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    tls = own_certificate(tmp_path)
    assert tls
    host = spark(CLEAN)
    host.run(door, root=ROOT, plan=plan(certificate=tls), **TEXTS)
    assert [stdin for _, stdin in host.commands if stdin == tls.pem] == [tls.pem]
    secret = tls.pem.splitlines()[-2]
    everything = caplog.text + "".join(host.scripts())
    assert secret not in everything
    assert KEY not in everything + "".join(str(stdin) for _, stdin in host.commands)


@pytest.mark.parametrize(
    ("section", "said", "expected"),
    [
        ("running", "version 2.8.5-1\nmark 0a", ["systemctl reload door.service"]),
        ("installed", "2.8.5-2", ["systemctl reload door.service"]),
        ("unit", "enabled", ["systemctl start door.service"]),
        ("unit", "active", ["systemctl enable --quiet door.service"]),
        ("stray", "enabled", ["systemctl disable --quiet --now haproxy.service"]),
        (
            "unit",
            "active enabled outdated",
            ["systemctl daemon-reload && systemctl restart door.service"],
        ),
    ],
)
def test_what_a_run_that_died_left_is_finished(
    section: str, said: str, expected: list[str]
) -> None:
    assert changes(settled(plan(), **{section: said}), plan()) == expected


def test_a_change_of_settings_is_a_reload_and_an_old_secret_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert changes(settled(plan()), plan()) == []
    assert "needs no key" not in caplog.text
    tls = own_certificate(tmp_path)
    done = changes(settled(plan(certificate=tls)), plan(keys=None))
    assert "rm -f /r/door/keys" in done[-2]
    assert "rm -f /r/door/certificate.pem" in done[-2]
    assert done[-1] == "systemctl reload door.service"
    assert "Port 8000 needs no key" in caplog.text


@pytest.mark.parametrize(
    ("section", "said", "told"),
    [
        ("taken", "nginx (pid 7)", "port 8000 is taken by nginx (pid 7)"),
        ("elsewhere", "0.0.0.0", "found bind 0.0.0.0, which is no address of this Spark"),
    ],
)
def test_where_it_cannot_listen_nothing_is_changed(section: str, said: str, told: str) -> None:
    host = spark(settled(plan(), **{section: said}))
    result = host.run(door, root=ROOT, plan=plan(), **TEXTS)
    assert result.did_error()
    (refusal,) = host.scripts()[1:]
    assert told in refusal


def test_a_spark_that_is_no_head_has_no_door() -> None:
    assert not spark(CLEAN).run(no_door, root=ROOT).did_change()
    host = spark(settled(plan()))
    assert host.run(no_door, root=ROOT).did_change()
    assert "disable --quiet --now door.service" in host.scripts()[-1]
    assert host.scripts()[-1].endswith("rm -rf /r/door")
