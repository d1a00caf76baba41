"""`sparkwright-host notify` against a real webhook: what arrives, when, and what nobody sees."""

import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from host.artifacts.weights.record import DAMAGED
from host.insight.monitoring.notify import RETRY
from tests.clock import patience
from tests.component.servers import QuietHandler, free_port, serving
from tests.programs import changed_program, ended, host_program, script

SPARK = "spark-a"
PATH = "/hooks/s3cret"
FAILED = r"Id=vllm@tiny-1.service\nActiveState=failed\nNRestarts=5\n"


class Hook(QuietHandler):
    """A webhook that answers what the test wants, or 200."""

    got: ClassVar[list[str]]
    answers: ClassVar[list[int]]
    elsewhere: ClassVar[str]
    hold: ClassVar[threading.Event]

    def do_POST(self) -> None:
        """Note the message, and answer."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.got.append(f"{self.path} {json.loads(body)['text']}")
        self.hold.wait(patience())
        status = self.answers.pop(0) if self.answers else 200
        self.send_response(status)
        if status // 100 == 3:
            self.send_header("Location", self.elsewhere)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST


@pytest.fixture
def hook(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hook]]:
    """A webhook, and a Spark whose secret names it; no proxy, and no engine that failed."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(root / "secrets"))
    monkeypatch.setattr(Hook, "got", [], raising=False)
    monkeypatch.setattr(Hook, "answers", [], raising=False)
    monkeypatch.setattr(Hook, "hold", threading.Event(), raising=False)
    Hook.hold.set()
    for folder in ("secrets", "state/notify", "jobs"):
        (root / folder).mkdir(parents=True)
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Hook)) as address:
        (root / "secrets/webhook").write_text(f"http://{address}{PATH}\n")
        yield Hook
        Hook.hold.set()


def fails(root: Path) -> None:
    """Have the engine give up."""
    script(root / "bin/systemctl", f"#!/bin/sh\nprintf '{FAILED}'\n")


def look(root: Path, ends: int = 0) -> str:
    """Run the program as its unit does each minute; return what it says."""
    return said(host_program("notify", root, SPARK, ends, "look"))


def changed(root: Path, **changes: float) -> str:
    """Run it with other bounds."""
    lines = "".join(f"notify.{name} = {value}\n" for name, value in changes.items())
    text = f"from host.insight.monitoring import notify\n{lines}notify.command()"
    return said(changed_program(text, root, SPARK, 0, "look"))


def said(command: list[str]) -> str:
    done = ended(command)
    assert PATH not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def record(root: Path) -> Any:
    return json.loads((root / "state/notify/notices.json").read_text())


def later(root: Path, seconds: float) -> None:
    """Have the times of the record be earlier, as if so many seconds had gone by."""
    new = {cause: [sent, after - seconds] for cause, (sent, after) in record(root).items()}
    (root / "state/notify/notices.json").write_text(json.dumps(new))


def test_a_spark_on_which_all_is_well_sends_nothing(root: Path, hook: type[Hook]) -> None:
    look(root)
    assert (hook.got, record(root)) == ([], {})
    written = (root / "state/notify/notices.json").stat().st_mtime_ns
    look(root)
    # Nor does it write each minute.
    assert (root / "state/notify/notices.json").stat().st_mtime_ns == written


def test_each_cause_is_sent_once(root: Path, hook: type[Hook]) -> None:
    fails(root)
    report = {"phase": "failed", "message": "prompt: the engine's log says s3cret words"}
    (root / "jobs/switch@tiny-2.json").write_text(json.dumps(report))
    (root / "tiny@1").mkdir()
    (root / "tiny@1" / DAMAGED).write_text("model.safetensors\n")
    now = time.time()
    down = {"at": now - 300, "back": now - 60, "cause": "power\x1b[2J", "lines": ["a log line"]}
    (root / "state/last-down.json").write_text(json.dumps(down))
    ends = int(now) + 13 * 86400
    for number in range(1, 6):
        look(root, ends)
        assert len(hook.got) == number
    date = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    expected = (
        "the engine of tiny-1 has given up",
        f"the switch to tiny-2 was taken back on {date}",
        f"the door's certificate ends on {date}: renew it, and apply",
        f"weights in tiny@1 were found damaged on {date}",
        rf"back since {date} after a hard end: power \[2J",
    )
    for line, what in zip(hook.got, expected, strict=True):
        message = rf"{PATH} spark-a: {what}\. Next: sparkwright doctor --limit spark-a"
        assert re.fullmatch(message, line)
    for seconds in (0, 60, 3500):
        later(root, seconds)
        look(root, ends)
    assert len(hook.got) == 5


def test_a_spark_that_its_group_misses_is_named_once(root: Path, hook: type[Hook]) -> None:
    for reason in ("no answer", "its engine is not started"):
        said = f"StatusText=missing for 15 min: spark-b at 10.0.0.2: {reason}"
        unit = f"Id=vllm@tiny-1.service\\nActiveState=activating\\n{said}\\n"
        script(root / "bin/systemctl", f"#!/bin/sh\nprintf '{unit}'\n")
        look(root)
        later(root, 3700)
    (line,) = hook.got
    assert line.startswith(f"{PATH} spark-a: in its group missing for 15 min: spark-b. Next: ")


def test_a_disk_that_runs_out_is_named(root: Path, hook: type[Hook]) -> None:
    assert "answered 200" in changed(root, DISK_FULL=1 << 62)
    assert changed(root, DISK_FULL=1 << 62) == ""
    (line,) = hook.got
    assert line.startswith(f"{PATH} spark-a: less than 2 GiB are free at {root}")


def test_a_switch_under_way_has_the_last_word(root: Path, hook: type[Hook]) -> None:
    """It stops the engine, and may start it again."""
    switch = r"\nId=switch@tiny-2.service\nActiveState=activating\n"
    script(root / "bin/systemctl", f"#!/bin/sh\nprintf '{FAILED}{switch}'\n")
    look(root)
    assert hook.got == []
    fails(root)
    look(root)
    assert len(hook.got) == 1


@pytest.mark.parametrize(
    ("down", "sent"),
    [
        ('{"back": NaN, "cause": "x"}', 0),
        ('{"back": 1, "cause": 5}', 0),
        ("[" * 99_999, 0),
        (json.dumps({"back": time.time(), "cause": "x" * 70_000}), 0),
        (json.dumps({"back": time.time(), "cause": "x" * 60_000}), 1),
    ],
)
def test_what_another_program_writes_is_input(
    root: Path, hook: type[Hook], down: str, sent: int
) -> None:
    (root / "state/last-down.json").write_text(down)
    look(root)
    assert len(hook.got) == sent
    assert all(len(line) < 600 for line in hook.got)


def test_a_failure_is_tried_again_later(root: Path, hook: type[Hook]) -> None:
    fails(root)
    hook.answers[:] = [500, 404, 429]
    assert "the webhook answered 500: look at `notify`, and that server" in look(root)
    look(root)
    assert len(hook.got) == 1
    for status in (404, 429, 200):
        later(root, RETRY - 20)
        assert look(root) == ""
        later(root, 20)
        assert f"the webhook answered {status}" in look(root)
    later(root, 3000)
    assert look(root) == ""
    assert len(hook.got) == 4


def test_who_does_not_listen_is_tried_again(root: Path, hook: type[Hook]) -> None:
    fails(root)
    address = (root / "secrets/webhook").read_text()
    (root / "secrets/webhook").write_text(f"http://127.0.0.1:{free_port()}{PATH}\n")
    assert "the webhook did not answer ([Errno 111] Connection refused)" in look(root)
    (root / "secrets/webhook").write_text(address)
    later(root, RETRY)
    assert "answered 200" in look(root)


def test_who_is_silent_is_left_in_time(root: Path, hook: type[Hook]) -> None:
    fails(root)
    hook.hold.clear()
    assert "the webhook did not answer (" in changed(root, PATIENCE=0.2)
    assert [sent for sent, _ in record(root).values()] == [""]
    hook.hold.set()


@pytest.mark.parametrize("status", [302, 308])
def test_no_redirect_is_followed(
    root: Path, hook: type[Hook], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Thief(Hook):
        """Another server."""

        got: ClassVar[list[str]] = []

    fails(root)
    hook.answers.append(status)
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Thief)) as address:
        monkeypatch.setattr(Hook, "elsewhere", f"http://{address}/", raising=False)
        assert f"answered {status}: look at `notify`" in look(root)
        assert (len(hook.got), Thief.got) == (1, [])


@pytest.mark.parametrize("damaged", ["{", "[1]", '{"x": ["a"]}', "9" * 70_000])
def test_a_damaged_record_is_none(root: Path, hook: type[Hook], damaged: str) -> None:
    (root / "state/notify/notices.json").write_text(damaged)
    fails(root)
    look(root)
    look(root)
    assert len(hook.got) == 1


def test_a_record_that_is_no_file_stops_the_sending(root: Path, hook: type[Hook]) -> None:
    """As a full disk does: otherwise the same message would come every minute."""
    fails(root)
    (root / "state/notify/notices.json").mkdir()
    assert "nothing is sent: [Errno 21] Is a directory: " in look(root)
    assert hook.got == []


def test_a_test_says_what_was_answered(root: Path, hook: type[Hook]) -> None:
    done = ended(host_program("notify", root, SPARK, 0, "test"))
    message = "spark-a: a test. Nothing is wrong."
    assert (done.returncode, done.stderr) == (0, f"the webhook answered 200: {message}\n")
    assert hook.got == [f"{PATH} {message}"]
    hook.answers.append(404)
    done = ended(host_program("notify", root, SPARK, 0, "test"))
    assert (done.returncode, done.stderr[:26]) == (1, "the webhook answered 404: ")
    assert not (root / "state/notify/notices.json").exists()


@pytest.mark.parametrize("address", ["", "http://a b/s3cret", "file:///s3cret"])
def test_an_address_that_is_none_is_not_shown(root: Path, hook: type[Hook], address: str) -> None:
    (root / "secrets/webhook").write_text(f"{address}\n")
    done = ended(host_program("notify", root, SPARK, 0, "test"))
    assert (done.returncode, done.stderr[:28]) == (1, "the webhook did not answer (")
    assert "Traceback" not in done.stderr
    assert "s3cret" not in done.stderr
