"""What a host keeps for itself, and the watchdog: whose it is, and when nothing is left to do."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from host.state import machine as reader
from sparkwright.common.placed import FILES, ROOM, SYSCTL, SYSTEMD, WATCHDOG, WATCHDOG_MODULE
from sparkwright.machine.host.operations.room import drop_in, room, watchdog
from sparkwright.machine.host.operations.services import sysctl
from sparkwright.machine.host.state import Watchdog
from tests.unit.driven import Driven, fake_host, file_of, placed

SET = "[Manager]\nRuntimeWatchdogSec=60\nRebootWatchdogSec=10min\n"
SET_FILES = {WATCHDOG: file_of(SET), WATCHDOG_MODULE: file_of("sbsa_gwdt\n")}
FOLDERS = {
    str(Path(path).parent): {"kind": "directory", "user": "root", "group": "root", "mode": "755"}
    for path in SET_FILES
}
RELOAD = "systemctl daemon-reload"


def machine(files: dict[str, Any] | None = None, **found: Any) -> Driven:
    """Return a Spark with a watchdog that nobody has set, but for what is `found`."""
    own = {"device": True, "offered": False, "set_by": "", "seconds": 0} | found
    settings = own.pop("settings", {})
    state = {"machine.watchdog": own, "placed": placed(files)}
    return fake_host(state=state, root="/r", **settings)


def test_a_watchdog_is_served_and_a_second_run_changes_nothing() -> None:
    spark = machine()
    assert spark.run(watchdog).did_change()
    assert not any("modprobe" in script for script in spark.scripts())
    assert spark.scripts()[-1] == RELOAD
    served = machine({WATCHDOG: SET_FILES[WATCHDOG], **FOLDERS}, seconds=60)
    assert not served.predicts_change(watchdog)


def test_a_run_that_died_before_systemd_read_it_is_finished() -> None:
    spark = machine({WATCHDOG: SET_FILES[WATCHDOG], **FOLDERS}, seconds=0)
    assert spark.run(watchdog).did_change()
    assert spark.scripts() == [RELOAD]
    # Where nobody can ask systemd, it is left at that.
    unknown = machine({WATCHDOG: SET_FILES[WATCHDOG], **FOLDERS}, seconds=None)
    assert not unknown.predicts_change(watchdog)


def test_a_watchdog_without_its_driver_gets_it_now_and_at_each_boot() -> None:
    spark = machine(device=False, offered=True)
    assert spark.run(watchdog).did_change()
    assert spark.scripts()[-2:] == ["modprobe sbsa_gwdt || true", RELOAD]
    done = machine({**SET_FILES, **FOLDERS}, offered=True, seconds=60)
    assert not done.predicts_change(watchdog)
    # It has failed, and is tried again by the next boot alone.
    waits = machine({**SET_FILES, **FOLDERS}, device=False, offered=True, seconds=60)
    assert not waits.predicts_change(watchdog)


@pytest.mark.parametrize(
    "found",
    [
        {"device": False},
        {"settings": {"watchdog_seconds": None}},
        {"set_by": "/etc/systemd/system.conf"},
    ],
)
def test_ours_goes_where_it_is_not_to_be(found: dict[str, Any]) -> None:
    assert not machine(**found).predicts_change(watchdog)
    spark = machine(SET_FILES, **found)
    assert spark.run(watchdog).did_change()
    assert spark.scripts() == [f"rm -f {WATCHDOG} {WATCHDOG_MODULE}", RELOAD]


def test_whose_it_is_instead_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    machine(set_by="/etc/systemd/system.conf").run(watchdog)
    assert "The watchdog is as /etc/systemd/system.conf says" in caplog.text


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a folder in place of the root of the reader's paths, and no systemd."""
    monkeypatch.setattr(reader, "_FOLDERS", (f"{tmp_path}/etc", f"{tmp_path}/usr/lib"))
    monkeypatch.setattr(
        reader,
        "text",
        lambda path: Path(
            path.replace("/etc", f"{tmp_path}/etc", 1)
            if not path.startswith(str(tmp_path))
            else path
        ).read_text(),
    )
    monkeypatch.setattr(reader, "word", lambda _: "quiet splash")
    (tmp_path / "etc/systemd/system.conf.d").mkdir(parents=True)
    (tmp_path / "etc/systemd/system.conf").write_text("[Manager]\n#RuntimeWatchdogSec=off\n")
    return tmp_path


def test_what_else_sets_it(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = system / "etc/systemd/system.conf.d"
    ours = str(folder / "sparkwright.conf")
    for name in ("sparkwright.conf", "x.conf.away"):
        (folder / name).write_text(SET)
    (folder / "other.conf").write_text("[Manager]\nRuntimeWatchdogSec=\nDefaultTasksMax=9\n")

    def set_by() -> str:
        return Watchdog.ask().value(json.dumps({"known": reader.watchdog(ours)})).set_by

    assert set_by() == ""
    vendors = system / "usr/lib/systemd/system.conf.d"
    vendors.mkdir(parents=True)
    (vendors / "vendor.conf").write_text("[Manager]\n RuntimeWatchdogSec = 20s\n")
    assert set_by() == str(vendors / "vendor.conf")
    (system / "etc/systemd/system.conf").write_text("[Manager]\nRuntimeWatchdogSec=off\n")
    assert set_by() == "/etc/systemd/system.conf"
    monkeypatch.setattr(reader, "word", lambda _: "quiet systemd.watchdog_sec=9")
    assert set_by() == "the kernel's command line"


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("1min", 60), ("1min 30s", 90), ("0", 0), ("infinity", None), (None, None)],
)
def test_what_systemd_has(
    monkeypatch: pytest.MonkeyPatch, said: str | None, seconds: int | None
) -> None:
    properties = {"RuntimeWatchdogUSec": said} if said else {}
    monkeypatch.setattr(reader, "manager", lambda: properties)
    assert reader.watchdog(WATCHDOG)["seconds"] == seconds


def test_room_is_read_by_systemd_once() -> None:
    files = {}
    for unit in ROOM:
        folder, file = drop_in(unit)
        files[folder.path] = FOLDERS[str(Path(WATCHDOG).parent)]
        files[file.path] = file_of(file.text)  # type: ignore[union-attr]
    new = fake_host(root="/r")
    assert new.run(room).did_change()
    assert new.scripts()[-1] == RELOAD
    known = dict.fromkeys(ROOM, "loaded active")
    assert not fake_host(state={"placed": placed(files, known)}, root="/r").predicts_change(room)
    # A run died before systemd had read them.
    unread = fake_host(
        state={"placed": placed(files, known | {"user.slice": "loaded active unread"})}, root="/r"
    )
    assert unread.run(room).did_change()
    assert unread.scripts() == [RELOAD]


def test_room_is_removed_by_the_table() -> None:
    readers = {file.path: file.reader for file in FILES}
    for unit in (*ROOM, "earlyoom.service"):
        assert readers[f"{SYSTEMD}/{unit}.d/sparkwright.conf"] == "systemd"
        assert drop_in(unit)[1].path in readers


def test_no_login_is_protected_as_its_daemon_is() -> None:
    """What ssh.service has as its OOM score, sshd gives to each session: bombs would have it."""
    _, file = drop_in("ssh.service")
    assert "OOMScoreAdjust=" not in str(file.text).replace("No OOM score", "")  # type: ignore[union-attr]


def test_a_parameter_that_the_kernel_lacks_is_left_out() -> None:
    values = {"kernel.panic": "10", "kernel.hardlockup_panic": "1"}
    text = "kernel.panic = 10\n"
    state = {"placed": placed({SYSCTL: file_of(text)}, parameters={"kernel.panic": "10"})}
    spark = fake_host(state=state, root="/r")
    arguments: dict[str, Any] = {"path": SYSCTL, "values": values}
    assert not spark.predicts_change(sysctl, **arguments, optional=[*values])
    assert spark.predicts_change(sysctl, **arguments)
