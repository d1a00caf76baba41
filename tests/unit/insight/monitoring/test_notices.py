"""Notices: which one is due, what is sent in which form, and how a run brings the webhook."""

import json
import logging
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api import HiddenValue
from pyinfra.api.deploy import add_deploy
from pyinfra.api.operations import run_ops

from host.insight.monitoring import notify
from host.insight.monitoring.notify import HOUR, RETRY, Record, decide, request
from sparkwright.common import render
from sparkwright.common.files import ManagedFile
from sparkwright.common.paths import HOST_FILES
from sparkwright.declared.fleet.settings import read_settings
from sparkwright.insight.monitoring import deploy as monitoring
from sparkwright.insight.monitoring.deploy import test_notice as send_test
from sparkwright.insight.monitoring.deploy import webhook
from sparkwright.machine.host.operations.files import secret_file
from sparkwright.plan.causes.thresholds import DISK_FULL
from tests.makers.refused import refusal, refused
from tests.unit.driven import Driven, fake_host, file_of, placed

NOW = 1_795_240_000
ENGINE = {"engine": "the engine of tiny-1 has given up"}


def switch(at: int) -> dict[str, str]:
    return {"switch": f"the switch to x was taken back at {at}"}


class Owner:
    """One whose webhook takes messages, or not; a Spark looks each minute."""

    def __init__(self) -> None:
        self.record: Record = {}
        self.works = True
        self.tries: list[int] = []
        self.got: list[tuple[int, str]] = []

    def look(self, now: int, found: dict[str, str]) -> None:
        record, cause = decide(self.record, found, now)
        # As it comes from the file.
        self.record = {key: tuple(each) for key, each in json.loads(json.dumps(record)).items()}
        if cause:
            self.tries.append(now)
            if self.works:
                self.record[cause] = found[cause], now + HOUR
                self.got.append((now, cause))

    def minutes(self, begin: int, number: int, found: dict[str, str]) -> None:
        for minute in range(number):
            self.look(begin + 60 * minute, found)


@pytest.fixture
def owner() -> Owner:
    return Owner()


def test_what_lasts_is_sent_once(owner: Owner) -> None:
    owner.minutes(NOW, 3000, ENGINE)
    assert owner.got == [(NOW, "engine")]


def test_what_comes_and_goes_is_sent_once_an_hour(owner: Owner) -> None:
    for minute in range(0, 180, 20):
        owner.minutes(NOW + 60 * minute, 10, ENGINE)
        owner.minutes(NOW + 60 * minute + 600, 10, {})
    assert [at for at, _ in owner.got] == [NOW, NOW + HOUR, NOW + 2 * HOUR]


def test_what_comes_back_to_stay_is_sent_when_the_hour_is_over(owner: Owner) -> None:
    owner.minutes(NOW, 10, ENGINE)
    owner.minutes(NOW + 600, 10, {})
    owner.minutes(NOW + 1200, 600, ENGINE)
    assert [at for at, _ in owner.got] == [NOW, NOW + HOUR]


def test_what_is_gone_is_forgotten(owner: Owner) -> None:
    owner.look(NOW, ENGINE)
    owner.minutes(NOW + 60, 60, {})
    assert owner.record == {}


def test_one_event_an_hour_is_sent(owner: Owner) -> None:
    for minute in range(0, 180, 20):
        owner.minutes(NOW + 60 * minute, 20, switch(NOW + 60 * minute))
    assert [at for at, _ in owner.got] == [NOW, NOW + HOUR, NOW + 2 * HOUR]


def test_an_event_is_sent_once_however_long_the_spark_was_off(owner: Owner) -> None:
    owner.look(NOW, switch(NOW))
    owner.look(NOW + 500 * HOUR, switch(NOW))
    assert owner.got == [(NOW, "switch")]


def test_each_minute_has_one_message(owner: Owner) -> None:
    owner.minutes(NOW, 9, ENGINE | switch(NOW) | {"disk": "full"})
    assert owner.got == [(NOW, "engine"), (NOW + 60, "switch"), (NOW + 120, "disk")]


def test_a_webhook_that_fails_is_tried_as_long_as_it_is_so(owner: Owner) -> None:
    owner.works = False
    owner.minutes(NOW, 100, ENGINE)
    owner.minutes(NOW + 6000, 100, {})
    assert owner.tries == [NOW + RETRY * number for number in range(10)]


def test_one_that_works_again_gets_the_message_once(owner: Owner) -> None:
    owner.works = False
    owner.minutes(NOW, 5, ENGINE)
    owner.works = True
    owner.minutes(NOW + 300, 900, ENGINE)
    assert owner.got == [(NOW + RETRY, "engine")]


@pytest.mark.parametrize("works", [True, False])
def test_a_clock_that_goes_back_repeats_nothing_and_delays_an_hour_at_most(
    owner: Owner, works: bool
) -> None:
    owner.works = works
    owner.minutes(NOW, 30, ENGINE)
    owner.works, back = True, NOW - 864_000
    owner.minutes(back, 120, ENGINE)
    assert len(owner.got) == 1
    assert owner.got[0][0] == NOW if works else back <= owner.got[0][0] <= back + HOUR


@pytest.mark.parametrize(
    ("address", "url", "form"),
    [
        ("https://ntfy.lan/sparks", "https://ntfy.lan/sparks", "ntfy"),
        ("https://ntfy.sh/x?auth=1", "https://ntfy.sh/x?auth=1", "ntfy"),
        ("ntfy+http://push.lan:81/sparks", "http://push.lan:81/sparks", "ntfy"),
        ("https://hooks.slack.com/services/T/1", "https://hooks.slack.com/services/T/1", "slack"),
        ("http://192.168.1.9:8123/api/webhook/x", "http://192.168.1.9:8123/api/webhook/x", "slack"),
    ],
)
def test_the_form_is_by_the_address(address: str, url: str, form: str) -> None:
    found, body, headers = request(address, "zu heiß")
    assert found == url
    if form == "ntfy":
        assert (body.decode(), headers) == ("zu heiß", {"Content-Type": "text/plain"})
    else:
        assert json.loads(body) == {"text": "zu heiß"}
        assert headers == {"Content-Type": "application/json"}


def test_the_disk_is_full_where_doctor_and_status_say_so() -> None:
    assert notify.DISK_FULL == DISK_FULL


GOOD = (
    "https://ntfy.lan/sparks",
    "ntfy+http://[fd00::2]:81/sparks",
    "https://hooks.example.org/a-room-of-many-long-words",
    "~/.config/sparkwright/webhook",
)
SECRET = (
    "https://hooks.slack.com/services/T0/B0/x",
    "https://ntfy.sh/sparks",
    "https://ntfy.sh:443/sparks",
    "ntfy+https://ntfy.sh/sparks",
    "https://me:word@ntfy.lan/sparks",
    "https://tk_x@ntfy.lan/sparks",
    "https://ntfy.lan/sparks?auth=QmVhcmVy",
    "https://discord.com/api/webhooks/1103948572345678912/x",
    "https://mattermost.lan/hooks/9xuqwrwgstrb3mzrxb83nb357a",
    "https://hooks.lan/9xuqwrwgstrb3mzrxb83nb357a",
    "ftp://ntfy.lan/sparks",
    "https://",
    "https://a b/c",
)


@pytest.mark.parametrize("value", GOOD)
def test_an_address_without_a_secret_may_be_in_group_data(value: str) -> None:
    assert read_settings({"notify": value}, "x").notify == value


@pytest.mark.parametrize("value", SECRET)
def test_a_secret_may_not_and_a_file_is_offered(value):
    (problem,) = refused(read_settings, {"notify": value}, "group_data/sparks.py")
    assert problem.startswith("group_data/sparks.py: notify: ")
    assert re.search("expected a URL such as .*, a file with a secret one", problem)
    assert "word@" not in problem


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "webhook"
    path.write_text(f"{SECRET[0]}\n")
    path.chmod(0o600)
    return path


def test_a_file_that_is_the_owners_alone_has_any_address(file: Path) -> None:
    assert webhook(str(file)) == SECRET[0]
    assert webhook(GOOD[0]) == GOOD[0]
    assert webhook(None) is None


@pytest.mark.parametrize(
    ("text", "mode", "expected"),
    [
        (SECRET[0], 0o640, "found mode 640; expected a webhook's URL in a file of mode 600"),
        ("not one", 0o600, "found no URL; expected a webhook's URL in a file of mode 600"),
        (f"{SECRET[0]}\n{SECRET[0]}", 0o600, "found no URL"),
        ("https://me:word@ntfy.lan/sparks", 0o600, "found no URL"),
        (None, 0o600, "found no URL; expected a webhook's URL in a file of mode 600"),
    ],
)
def test_a_file_that_cannot_be_is_refused(
    file: Path, text: str | None, mode: int, expected: str
) -> None:
    file.unlink() if text is None else file.write_text(text)
    if text is not None:
        file.chmod(mode)
    said = refusal(webhook, str(file))
    assert f"{file}: {expected}" in said
    assert not text or text not in said


def unit(name: str, **values: Any) -> str:
    given = {"root": "/r", "spark": "spark-a", "ends": 7, "proxy": {}} | values
    return render.render(HOST_FILES / "insight" / "monitoring" / name, **given)


def test_the_unit_has_all_but_the_address() -> None:
    text = unit("notify@.service", proxy={"https_proxy": "http://proxy.lan:3128"})
    program = "/usr/bin/python3 -B /r/bin/sparkwright-host"
    assert f"\nExecStart={program} notify /r spark-a 7 %i\n" in text
    assert "\nLoadCredential=webhook:/r/secrets/webhook\n" in text
    assert "\nEnvironment=https_proxy=http://proxy.lan:3128\n" in text
    # What `remove` knows it by.
    assert "Root=/r\n" in unit("notify.timer")


def test_the_address_is_in_stdin_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    spark = fake_host(root="/r")
    path = "/r/secrets/webhook"
    assert spark.run(secret_file, path=path, content=HiddenValue(f"{SECRET[0]}\n")).did_change()
    assert [stdin for _, stdin in spark.commands if stdin] == [f"{SECRET[0]}\n"]
    assert not any("slack" in script for script in spark.scripts())
    assert "slack" not in caplog.text


CHAT = {
    "replica": "chat",
    "recipe": "lab-tiny",
    "ranks": ["a"],
    "rank": 0,
    "spark": "a",
    "port": 8000,
}


def applied(monkeypatch: pytest.MonkeyPatch, notify: str | None, timer: str) -> Driven:
    """Have a run bring a Spark's metrics and notices; its timer is in systemd's words."""
    ends = SimpleNamespace(ends=datetime.fromtimestamp(1_800_000_000.7, UTC))
    monkeypatch.setattr(monitoring, "door_plan", lambda _: SimpleNamespace(certificate=ends))
    found = {
        "placed": placed({"/r/secrets/webhook": file_of("x", "600")}, {"notify.timer": timer}),
        "sockets.exporter": {"holder": "x", "installed": False, "ours": False},
    }
    spark = fake_host(state=found, root="/r", notify=notify, hardware="lab", **CHAT)
    with spark.current() as host:
        host.state.check_for_changes = False
        add_deploy(host.state, monitoring.apply)
        run_ops(host.state)
    return spark


def test_a_run_brings_address_and_timer(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    texts: list[str] = []

    def unit_file(path: Path, **values: object) -> ManagedFile:
        texts.append(render.render(path, **values))
        return ManagedFile(f"/etc/systemd/system/{path.name}", texts[-1])

    monkeypatch.setattr(monitoring, "unit_file", unit_file)
    spark = applied(monkeypatch, str(file), "")
    assert [stdin for _, stdin in spark.commands if stdin] == [f"{SECRET[0]}\n"]
    scripts = "\n".join(spark.scripts())
    assert "systemctl enable --quiet notify.timer" in scripts
    assert "install -d -o root -g root -m 755 /r/state/notify" in scripts
    assert any("notify /r a 1800000000 %i\n" in text for text in texts)
    assert "slack" not in scripts + "".join(texts)


def test_a_run_without_one_takes_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = applied(monkeypatch, None, "loaded active enabled 1000").scripts()
    assert "systemctl disable --quiet --now notify.timer" in scripts
    assert "rm -f /r/secrets/webhook /r/secrets/webhook.new" in scripts


def test_a_test_is_sent_by_the_unit_that_sends_notices() -> None:
    spark = fake_host(root="/r", spark="spark-a", notify=GOOD[0])
    assert spark.run(send_test).did_succeed()
    (script,) = spark.scripts()
    assert script.startswith("systemctl start notify@test || { journalctl --unit=notify@test ")


def test_without_a_webhook_a_test_says_what_to_do() -> None:
    spark = fake_host({"No webhook": {"success": False}}, root="/r", spark="spark-a")
    assert not spark.run(send_test).did_succeed()
    (script,) = spark.scripts()
    assert "No webhook is set: set `notify` in the group data, and apply." in script
