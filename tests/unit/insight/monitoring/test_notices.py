"""Notices: which are due, what is sent in which form, and how a run brings the webhook."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api import HiddenValue
from pyinfra.api.deploy import add_deploy
from pyinfra.api.operations import run_ops

from host.insight.monitoring import notices, notify
from host.insight.monitoring.notices import DAY, HOUR, MOST, TRIES, Notice, Said, decide
from host.insight.monitoring.webhook import request
from sparkwright.common import render
from sparkwright.common.errors import PlanError
from sparkwright.common.files import ManagedFile
from sparkwright.declared.fleet.settings import read_settings
from sparkwright.insight.monitoring import deploy as monitoring
from sparkwright.insight.monitoring.deploy import metrics_units, notice_test, webhook
from sparkwright.machine.host.operations.files import secret_file
from sparkwright.plan.causes.thresholds import DISK_FULL
from tests.unit.driven import Driven, fake_host, file_of, placed

NOW = 1_795_240_000.0
ENGINE = Notice("engine of chat", "the engine of chat has given up")


def switch(at: float) -> Notice:
    return Notice("switch of chat", "the switch of chat to x was taken back", at)


class Told:
    """An owner whose webhook takes messages, or not; what is so is looked at once a minute."""

    def __init__(self) -> None:
        self.record: dict[str, Said] = {}
        self.works = True
        self.tries: list[float] = []
        self.told: list[tuple[float, str]] = []

    def look(self, now: float, *found: Notice) -> None:
        self.record, due = decide(self.record, found, now)
        # As the record travels.
        self.record = {k: Said(*v) for k, v in json.loads(json.dumps(self.record)).items()}
        for each in due:
            self.tries.append(now)
            if self.works:
                self.record[each.cause] = self.record[each.cause]._replace(told=now, tries=-1)
                self.told.append((now, each.cause))

    def minutes(self, begin: float, number: int, *found: Notice) -> None:
        for minute in range(number):
            self.look(begin + 60 * minute, *found)


@pytest.fixture
def owner() -> Told:
    return Told()


def test_what_lasts_is_told_once(owner: Told) -> None:
    owner.minutes(NOW, 3000, ENGINE)
    assert owner.told == [(NOW, ENGINE.cause)]
    assert owner.record[ENGINE.cause].since == NOW


def test_what_comes_and_goes_is_told_once_an_hour(owner: Told) -> None:
    for minute in range(0, 180, 20):
        owner.minutes(NOW + 60 * minute, 10, ENGINE)
        owner.minutes(NOW + 60 * minute + 600, 10)
    assert [at for at, _ in owner.told] == [NOW, NOW + HOUR, NOW + 2 * HOUR]


def test_what_comes_back_to_stay_is_told_when_the_hour_is_over(owner: Told) -> None:
    owner.minutes(NOW, 10, ENGINE)
    owner.minutes(NOW + 600, 10)
    owner.minutes(NOW + 1200, 600, ENGINE)
    assert [at for at, _ in owner.told] == [NOW, NOW + HOUR]
    assert owner.record[ENGINE.cause].since == NOW + 1200


def test_what_was_not_read_for_a_moment_is_still_the_same(owner: Told) -> None:
    for minute in range(0, 300, 5):
        owner.minutes(NOW + 60 * minute, 2, ENGINE)
        owner.minutes(NOW + 60 * minute + 120, 3)
    assert owner.told == [(NOW, ENGINE.cause)]


def test_what_is_gone_is_forgotten(owner: Told) -> None:
    owner.look(NOW, ENGINE)
    owner.minutes(NOW + 60, 60)
    assert owner.record == {}


def test_of_events_one_an_hour_is_told(owner: Told) -> None:
    for minute in range(0, 180, 20):
        owner.minutes(NOW + 60 * minute, 20, switch(NOW + 60 * minute))
    times = [at for at, _ in owner.told]
    assert times == [NOW, NOW + HOUR, NOW + 2 * HOUR]


def test_an_event_is_told_once_however_long_the_spark_was_off(owner: Told) -> None:
    owner.look(NOW, switch(NOW))
    owner.look(NOW + 5 * HOUR, switch(NOW))
    assert owner.told == [(NOW, "switch of chat")]


def test_what_happened_a_day_ago_is_no_news(owner: Told) -> None:
    owner.look(NOW, switch(NOW - DAY))
    assert (owner.tries, owner.record) == ([], {})
    owner.look(NOW, switch(NOW - DAY + 60))
    assert len(owner.told) == 1


def test_a_webhook_that_fails_is_tried_later_and_later_for_a_day(owner: Told) -> None:
    owner.works = False
    owner.minutes(NOW, 3 * 24 * 60, ENGINE)
    gaps = [late - early for early, late in zip(owner.tries, owner.tries[1:], strict=False)]
    assert gaps[:7] == [60, 120, 240, 480, 960, 1920, 3600]
    assert set(gaps[6:]) == {3600}
    assert DAY - HOUR < owner.tries[-1] - NOW <= DAY
    assert len(owner.tries) == TRIES


def test_one_that_works_again_is_told_with_its_beginning(owner: Told) -> None:
    owner.works = False
    owner.minutes(NOW, 5, ENGINE)
    owner.works = True
    owner.minutes(NOW + 300, 10, ENGINE)
    assert owner.told == [(NOW + 420, ENGINE.cause)]
    assert owner.record[ENGINE.cause].since == NOW


@pytest.mark.parametrize("works", [True, False])
def test_a_clock_that_goes_back_repeats_nothing_and_delays_an_hour_at_most(
    owner: Told, works: bool
) -> None:
    owner.works = works
    owner.minutes(NOW, 30, ENGINE)
    owner.works, back = True, NOW - 10 * DAY
    owner.minutes(back, 120, ENGINE)
    assert len(owner.told) == 1
    assert owner.told[0][0] == NOW if works else back <= owner.told[0][0] <= back + HOUR


def test_numbers_that_are_none_delay_a_minute(owner: Told) -> None:
    nan = float("nan")
    owner.record = {ENGINE.cause: Said(nan, nan, 0, nan)}
    owner.minutes(NOW, 3, ENGINE, Notice("down", "x", nan), Notice("switch", "x", float("inf")))
    assert ENGINE.cause in [cause for _, cause in owner.told]


def test_the_record_is_bounded() -> None:
    many = [Notice(f"weights in {number}", "x") for number in range(1000)]
    record, due = decide({}, many, NOW)
    assert len(record) == len(due) == MOST


def test_a_message_is_one_plain_line_of_bounded_length() -> None:
    said = notices.text("spark-a", ENGINE, NOW)
    assert said == (
        "spark-a: the engine of chat has given up; since 2026-11-21 05:46 UTC. "
        "Next: sparkwright doctor --limit spark-a"
    )
    for since in (-1e300, 1e300, float("inf")):
        bad = notices.text("spark-a", Notice("down", "x\x1b[2J\n" * 999), since)
        assert bad.isprintable()
        assert len(bad) <= 500


@pytest.mark.parametrize(
    ("address", "url", "form"),
    [
        ("https://ntfy.lan/sparks", "https://ntfy.lan/sparks", "ntfy"),
        ("https://ntfy.sh/x?auth=1", "https://ntfy.sh/x?auth=1", "ntfy"),
        ("ntfy+http://push.lan:81/sparks", "http://push.lan:81/sparks", "ntfy"),
        ("https://hooks.slack.com/triggers/T/1", "https://hooks.slack.com/triggers/T/1", "slack"),
        ("https://chat.lan/services/T/B/x", "https://chat.lan/services/T/B/x", "slack"),
        ("slack+https://ntfy.lan/hooks/x", "https://ntfy.lan/hooks/x", "slack"),
        ("https://hooks.lan/x", "https://hooks.lan/x", "json"),
        ("http://192.168.1.9:8123/api/webhook/x", "http://192.168.1.9:8123/api/webhook/x", "json"),
    ],
)
def test_the_form_is_by_the_address(address: str, url: str, form: str) -> None:
    asked = request(address, "spark-a", "zu heiß")
    assert (asked.full_url, asked.get_method()) == (url, "POST")
    assert isinstance(asked.data, bytes)
    if form == "ntfy":
        assert asked.data.decode() == "zu heiß"
        assert asked.get_header("Title") == "Spark spark-a"
    elif form == "slack":
        assert json.loads(asked.data) == {"text": "zu heiß"}
    else:
        assert json.loads(asked.data) == {"title": "Spark spark-a", "message": "zu heiß"}


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
    "https://hooks.slack.com:443/x",
    "https://ntfy.sh/sparks",
    "ntfy+https://ntfy.sh/sparks",
    "https://me:word@ntfy.lan/sparks",
    "https://tk_x@ntfy.lan/sparks",
    "https://ntfy.lan/sparks?auth=QmVhcmVy",
    "https://discord.com/api/webhooks/1103948572345678912/x",
    "https://mattermost.lan/hooks/9xuqwrwgstrb3mzrxb83nb357a",
    "ftp://ntfy.lan/sparks",
    "https://",
    "https://a b/c",
)


@pytest.mark.parametrize("value", GOOD)
def test_an_address_without_a_secret_may_be_in_group_data(value: str) -> None:
    assert read_settings({"notify": value}, "x").notify == value


@pytest.mark.parametrize("value", SECRET)
def test_a_secret_may_not_and_a_file_is_offered(value: str) -> None:
    with pytest.raises(PlanError, match=r"found .*expected a URL without password or token") as bad:
        read_settings({"notify": value}, "group_data/sparks.py")
    (problem,) = bad.value.problems
    assert problem.startswith("group_data/sparks.py: notify: ")
    assert "a file of your own (chmod 600)" in problem
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
        (SECRET[0], 0o640, "found mode 640, with which others can read it; expected 600: chmod"),
        (
            "not one",
            0o600,
            "found no URL; expected a file with a webhook's URL alone, without user@",
        ),
        (f"{SECRET[0]}\n{SECRET[0]}", 0o600, "found no URL"),
        ("https://me:word@ntfy.lan/sparks", 0o600, "found no URL"),
        (None, 0o600, "found no URL; expected a file with a webhook's URL alone, without user@"),
    ],
)
def test_a_file_that_cannot_be_is_refused(
    file: Path, text: str | None, mode: int, expected: str
) -> None:
    file.unlink() if text is None else file.write_text(text)
    if text is not None:
        file.chmod(mode)
    with pytest.raises(PlanError) as raised:
        webhook(str(file))
    assert f"{file}: {expected}" in str(raised.value)
    assert not text or text not in str(raised.value)


def units(**values: Any) -> dict[str, str]:
    given = {"spark": "spark-a", "seats": ["chat==7"], "proxy": {}} | values
    made = metrics_units(("notify.timer", "notify.service"), "/r", None, **given)
    return {Path(unit.path).name: str(unit.text) for unit in made}


def test_the_unit_knows_what_it_tells_of_and_not_the_address() -> None:
    text = units(proxy={"https_proxy": "http://proxy.lan:3128"})["notify.service"]
    assert (
        "\nExecStart=/usr/bin/python3 -B /r/bin/sparkwright-host notify /r spark-a chat==7\n"
        in text
    )
    assert "\nLoadCredential=webhook:/r/secrets/webhook\n" in text
    assert "\nEnvironment=https_proxy=http://proxy.lan:3128\n" in text
    # What `remove` knows it by.
    assert "Root=/r\n" in units()["notify.timer"]


def test_the_address_is_in_stdin_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    spark = fake_host(root="/r")
    path = "/r/secrets/webhook"
    assert spark.run(secret_file, path=path, content=HiddenValue(f"{SECRET[0]}\n")).did_change()
    assert [stdin for _, stdin in spark.commands if stdin] == [f"{SECRET[0]}\n"]
    assert not any("slack" in script for script in spark.scripts())
    assert "slack" not in caplog.text


CHAT = {"replica": "chat", "recipe": "lab-tiny", "ranks": ["a"], "rank": 0, "spark": "a"}


def applied(monkeypatch: pytest.MonkeyPatch, notify: str | None, timer: str) -> Driven:
    """Have a run bring a Spark's metrics and notices; its timer is in systemd's words."""
    ends = SimpleNamespace(ends=datetime.fromtimestamp(1_800_000_000.7, UTC))
    monkeypatch.setattr(monitoring, "certificate_of", lambda _: ends)
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
    assert any("notify /r a chat==1800000001\n" in text for text in texts)
    assert "slack" not in scripts + "".join(texts)


def test_a_run_without_one_takes_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = applied(monkeypatch, None, "loaded active enabled 1000").scripts()
    assert "systemctl disable --quiet --now notify.timer" in scripts
    assert "rm -f /r/secrets/webhook /r/secrets/webhook.new" in scripts


ANSWERS = [
    ("the webhook answered 200", True),
    ("the webhook answered 404: copy its address anew", False),
]


@pytest.mark.parametrize(("said", "arrived"), ANSWERS)
def test_a_test_says_what_was_answered(
    said: str, arrived: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    answer = {"stdout": said, "success": arrived}
    spark = fake_host({"sparkwright-host": answer}, root="/r", spark="spark-a")
    result = spark.run(notice_test)
    assert (result.did_succeed(), said in caplog.text) == (arrived, True)
    assert spark.scripts() == [
        "timeout 60 env /r/bin/sparkwright-host notify /r spark-a test",
    ]
