"""Notices: which one is due, what is sent in which form, and how a run brings the webhook."""

import json
import logging
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyinfra.api.deploy import add_deploy
from pyinfra.api.operations import run_ops

from host.insight.monitoring import notify
from host.insight.monitoring.notify import HOUR, RETRY, Record, decide, request
from sparkwright.common import render
from sparkwright.common.files import ManagedFile
from sparkwright.declared.fleet.settings import read_settings
from sparkwright.insight.monitoring import deploy as monitoring
from sparkwright.insight.monitoring.deploy import test_notice as send_test
from sparkwright.insight.monitoring.deploy import webhook
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


COMES, HOURLY = [*range(0, 180, 20)], [0, 60, 120]


@pytest.mark.parametrize(
    ("found", "sent"),
    [
        # What lasts is sent once; what comes and goes, or comes back to stay, once an hour.
        ([(0, 3000, ENGINE)], [0]),
        ([each for at in COMES for each in ((at, 10, ENGINE), (at + 10, 10, {}))], HOURLY),
        ([(0, 10, ENGINE), (10, 10, {}), (20, 600, ENGINE)], [0, 60]),
        # So is one event, however long the Spark was off.
        ([(at, 20, switch(at)) for at in COMES], HOURLY),
        ([(0, 1, switch(0)), (30_000, 1, switch(0))], [0]),
        # Each minute has one message.
        ([(0, 9, ENGINE | switch(0) | {"disk": "full"})], [0, 1, 2]),
    ],
)
def test_when_a_message_is_sent(
    owner: Owner, found: list[tuple[int, int, dict[str, str]]], sent: list[int]
) -> None:
    for begin, number, each in found:
        owner.minutes(NOW + 60 * begin, number, each)
    assert [(at - NOW) / 60 for at, _ in owner.got] == sent
    causes = [cause for cause in ("engine", "switch", "disk") if cause in found[0][2]]
    assert [cause for _, cause in owner.got][: len(causes)] == causes


def test_what_is_gone_is_forgotten(owner: Owner) -> None:
    owner.minutes(NOW, 1, ENGINE)
    owner.minutes(NOW + 60, 60, {})
    assert owner.record == {}


def test_a_webhook_that_fails_is_tried_until_it_works_or_all_is_well(owner: Owner) -> None:
    owner.works = False
    owner.minutes(NOW, 100, ENGINE)
    owner.minutes(NOW + 6000, 100, {})
    assert owner.tries == [NOW + RETRY * number for number in range(10)]
    owner.minutes(NOW + 12_000, 5, ENGINE)
    owner.works = True
    owner.minutes(NOW + 12_300, 900, ENGINE)
    assert owner.got == [(NOW + 12_000 + RETRY, "engine")]


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
    proxy = "http://proxy.lan:3128"
    spark = fake_host(state=found, root="/r", notify=notify, hardware="lab", proxy=proxy, **CHAT)
    with spark.current() as host:
        host.state.check_for_changes = False
        add_deploy(host.state, monitoring.apply)
        run_ops(host.state)
    return spark


def test_a_run_brings_timer_and_address_which_is_in_stdin_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
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
    (service,) = (text for text in texts if "notify /r a 1800000000 %i\n" in text)
    assert "\nEnvironment=https_proxy=http://proxy.lan:3128\n" in service
    assert "slack" not in scripts + caplog.text + "".join(texts)


def test_a_run_without_one_takes_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = applied(monkeypatch, None, "loaded active enabled 1000").scripts()
    assert "systemctl disable --quiet --now notify.timer" in scripts
    assert "rm -f /r/secrets/webhook /r/secrets/webhook.new" in scripts


def test_a_test_is_sent_by_the_unit_that_sends_notices_if_there_is_a_webhook() -> None:
    spark = fake_host(root="/r", spark="spark-a", notify=GOOD[0])
    assert spark.run(send_test).did_succeed()
    (script,) = spark.scripts()
    assert script.startswith("systemctl start notify@test || { journalctl --unit=notify@test ")
    spark = fake_host({"No webhook": {"success": False}}, root="/r", spark="spark-a")
    assert not spark.run(send_test).did_succeed()
    (script,) = spark.scripts()
    assert "No webhook is set: set `notify` in the group data, and apply." in script
