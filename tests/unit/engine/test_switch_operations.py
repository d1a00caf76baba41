"""What a run does about what serves, and what it says."""

import json
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyinfra.api import operation

from sparkwright.common.hardware import HARDWARE
from sparkwright.engine.operations.serve import attempt, go_back, idle, serving
from sparkwright.engine.switch import Outcome, SwitchSettings
from tests.makers.release import release
from tests.unit.driven import Driven, fake_host

NEW = release()
SETTINGS = SwitchSettings(trial=15, drain=30, door=True, hardware=HARDWARE["lab"], load=None)
UNIT = "Id=vllm@{}.service\nActiveState={}\nNRestarts=0\nNeedDaemonReload=no\nJob=\nStatusText=x\n"
REPORT = {"phase": "done", "done": 0, "total": 0, "message": "", "previous": "old", "beside": True}
REPORT |= {"restored": None, "began": 1, "seconds": 3.0, "gap": 0.0}
LOG = "vllm: error: unrecognized arguments: --swap-space 4"


def engines(
    *units: tuple[str, str],
    enabled: str = "",
    current: str = "",
    switches: str = "",
    failed: str = "",
    first: str = NEW.id,
    hold: str = "no",
    serves: bool = True,
) -> str:
    names = [name for name in [NEW.id] if name not in dict(units)]
    shown = "\n".join(
        UNIT.format(*unit) for unit in [*units, *((name, "inactive") for name in names)]
    )
    models = json.dumps({"data": [{"id": name} for name in NEW.recipe.served_names]})
    return "\n".join(
        [
            "@@current",
            *([f"releases/{current}"] if current else []),
            "@@enabled",
            *([f"vllm@{enabled}.service"] if enabled else []),
            "@@share",
            "@@switches",
            *([f"switch@{switches}.service"] if switches else []),
            "@@failed",
            *([failed] if failed else []),
            "@@door",
            f"first {first}\nhold {hold}",
            "@@units",
            shown,
            "@@models",
            models,
            "@@completion",
            json.dumps({"usage": {"completion_tokens": 1}}) if serves else "curl: (28) timed out",
        ]
    )


def spark(
    found: str,
    report: Mapping[str, object] | None = None,
    log: str = "",
    size: int | None = None,
    history: str = "",
) -> Driven:
    said = json.dumps(REPORT | dict(report or {}))
    return fake_host(
        {
            "echo @@history": {"stdout": history},
            "echo @@current": {"stdout": found},
            "echo @@host": {"stdout": "@@host\n8000000\n7000000\n0\n@@gpu"},
            "--property=ActiveState switch@": {"stdout": f"inactive\n{said}\n{log}\n-- cursor: c"},
            "cat /opt/x/manifests/": {"stdout": json.dumps({"engine": size})},
        },
        spark="a",
    )


SETTLED = engines((NEW.id, "active"), enabled=NEW.id, current=NEW.id)
FORMER = engines(("old", "active"), enabled="old", current="old", first="old")


def changes(driven: Driven) -> list[str]:
    """The commands that change something."""
    looks = ("echo @@", "cat /opt", "systemctl show", "sha1sum", "\nenabled=", "mkdir -p /tmp")
    scripts = [script.strip() for script in driven.scripts()]
    return [each for each in scripts if not each.startswith(looks) and "@@" not in each]


def serve(driven: Driven) -> Any:
    return driven.run(serving, release=NEW, settings=SETTINGS)


def test_what_serves_is_left_alone() -> None:
    driven = spark(SETTLED)
    assert serve(driven).did_succeed()
    assert changes(driven) == []
    assert not driven.predicts_change(serving, release=NEW, settings=SETTINGS)


def test_where_systemd_says_nothing_the_spark_fails() -> None:
    units, models = engines().split("@@units")[0], engines().split("@@models")[1]
    driven = spark(f"{units}@@units\n@@models{models}")
    assert serve(driven).did_error()
    assert "systemd does not answer: the engine is one of its units" in driven.scripts()[-1]


@pytest.mark.parametrize(
    ("found", "command"),
    [
        ({"current": "old"}, f"ln -sfnT releases/{NEW.id} /opt/x/current"),
        ({"first": "old"}, f"bin/sparkwright-host door /opt/x offer {NEW.id} "),
        ({"hold": "yes"}, f"bin/sparkwright-host door /opt/x prefer {NEW.id}"),
        ({"stray": "active"}, "systemctl disable --quiet --now vllm@stray.service"),
        ({"failed": "switch@bad.service"}, "systemctl reset-failed switch@bad.service"),
        ({"stray": "failed", "boots": "stray"}, "systemctl disable --quiet --now"),
    ],
)
def test_what_serves_is_put_right_without_a_switch(found: dict[str, str], command: str) -> None:
    settled = {"enabled": NEW.id, "current": NEW.id}
    stray = [("stray", found.pop("stray"))] if "stray" in found else []
    boots = found.pop("boots", "")
    text = engines((NEW.id, "active"), *stray, **(settled | found))  # type: ignore[arg-type]
    if boots:
        text = text.replace("@@share", f"vllm@{boots}.service\n@@share")
    driven = spark(text)
    assert serve(driven).did_succeed()
    (done,) = changes(driven)
    assert command in done
    assert driven.predicts_change(serving, release=NEW, settings=SETTINGS)


def test_who_lends_to_no_other_replica_any_more_stops_its_share() -> None:
    driven = spark(SETTLED.replace("@@switches", "@@lan-share\nenabled\n@@switches"))
    assert serve(driven).did_succeed()
    off = "systemctl disable --quiet --now lan-share.socket"
    assert changes(driven) == [off]
    nothing = spark(SETTLED.replace("@@switches", "@@lan-share\nenabled\n@@switches"))
    nothing.run(idle, root="/opt/x")
    assert off in changes(nothing)


def test_a_switch_is_a_job_of_the_spark() -> None:
    driven = spark(SETTLED.replace(f"vllm@{NEW.id}.service\n@@share", "vllm@old.service\n@@share"))
    assert serve(driven).did_succeed()
    started = [script for script in changes(driven) if "systemctl start" in script]
    assert started == [f"systemctl daemon-reload && systemctl start switch@{NEW.id}.service"]
    assert not any("vllm@" in script for script in changes(driven))


def test_a_switch_under_way_is_joined() -> None:
    driven = spark(engines((NEW.id, "activating"), enabled="old", switches=NEW.id))
    serve(driven)
    assert changes(driven) == []


def test_another_switch_is_ended_first() -> None:
    driven = spark(engines(("other", "activating"), enabled="old", switches="other"))
    serve(driven)
    first, *_, last = changes(driven)
    assert first == "systemctl stop --no-block switch@other.service"
    assert last.endswith(f"systemctl start switch@{NEW.id}.service")


def test_what_does_not_serve_fails_with_what_it_said() -> None:
    report = {"phase": "failed", "message": "it did not start: x", "restored": True}
    driven = spark(FORMER, report, log=LOG)
    assert not serve(driven).did_succeed()
    said = driven.scripts()[-1]
    for part in (
        LOG,
        "it did not start: x",
        "old serves again",
        f"vllm@{NEW.id} stays off",
        "Hint",
    ):
        assert part in said


def test_an_engine_that_is_active_and_silent_is_left_as_it_is() -> None:
    driven = spark(engines((NEW.id, "active"), enabled=NEW.id, current=NEW.id, serves=False))
    assert not serve(driven).did_succeed()
    (said,) = changes(driven)
    assert "is active, but a completion of one token gave: curl: (28)" in said
    assert "stays off" not in said


def off(release: str) -> str:
    """Return the command by which an engine ends, boots no more, and has not failed."""
    unit = f"vllm@{release}.service"
    forgiven = f"{{ systemctl reset-failed {unit} 2>/dev/null || true; }}"
    return f"systemctl disable --quiet --now {unit} && {forgiven}"


class TestAttempt:
    """The same for a rollout, which goes on."""

    @staticmethod
    def run(driven: Driven, outcome: Outcome, back: bool = False, peer: Any = None) -> bool:
        @operation()
        def attempted() -> Generator[Any]:
            if back:
                yield from go_back("/opt/x", SETTINGS, peer, outcome)
            else:
                yield from attempt(NEW, SETTINGS, peer, outcome)

        return bool(driven.run(attempted).did_succeed())

    def test_what_serves(self) -> None:
        outcome = Outcome()
        assert self.run(spark(SETTLED), outcome)
        assert (outcome.served, outcome.attempted, outcome.previous) == (True, False, None)

    def test_a_failure_is_told_and_fails_nobody(self) -> None:
        outcome = Outcome()
        report = {"phase": "failed", "message": "no", "restored": True, "gap": 12.5}
        assert self.run(spark(FORMER, report, log=LOG), outcome)
        assert (outcome.served, outcome.attempted, outcome.restored) == (False, True, True)
        assert (outcome.previous, outcome.reason, outcome.gap) == ("old", "no", 12.5)
        assert outcome.log == [LOG]

    def test_a_switch_is_undone_by_one_back(self) -> None:
        outcome = Outcome(served=True, attempted=True, previous="old")
        driven = spark(SETTLED)
        assert self.run(driven, outcome, back=True)
        assert outcome.taken_back is True
        assert changes(driven)[-1].endswith("systemctl start switch@old.service")

    def test_one_that_gives_no_answer_any_more_is_undone_too(self) -> None:
        outcome = Outcome(attempted=True, silent=True, previous="old")
        driven = spark(SETTLED)
        assert self.run(driven, outcome, back=True)
        assert changes(driven)[-1].endswith("systemctl start switch@old.service")

    def test_one_that_cannot_be_undone_is_told(self) -> None:
        outcome = Outcome(served=True, attempted=True, previous="old")
        report = {"phase": "failed", "message": "the weights are gone"}
        assert self.run(spark(SETTLED, report), outcome, back=True)
        assert (outcome.taken_back, outcome.reason) == (False, "the weights are gone")

    def test_a_first_release_goes_off_again(self) -> None:
        outcome = Outcome(served=True, attempted=True)
        driven = spark(SETTLED)
        assert self.run(driven, outcome, back=True)
        assert outcome.taken_back is True
        assert changes(driven) == [
            off(NEW.id),
            "rm -f /opt/x/current",
        ]

    def test_what_was_not_changed_is_not_undone(self) -> None:
        for outcome in (Outcome(served=True), Outcome(attempted=True, restored=True)):
            driven = spark(SETTLED)
            assert self.run(driven, outcome, back=True)
            assert outcome.taken_back is True
            assert driven.scripts() == []


def test_the_other_of_a_pair_hears_of_a_switch_that_does_not_begin() -> None:
    """As on a Spark that shuts down: what it fails at is a command before anything is followed."""
    refused = {"systemctl daemon-reload && systemctl start": {"success": False}}
    outcome, driven = Outcome(), spark(FORMER)
    driven.data["fake_responses"] |= refused
    assert not TestAttempt.run(driven, outcome)
    assert (outcome.ended, outcome.served, outcome.reason) == (True, False, "it began no switch")


def test_an_idle_spark_ends_a_switch_first() -> None:
    driven = spark(engines(("old", "active"), enabled="old", current="old", switches=NEW.id))
    assert driven.run(idle, root="/opt/x").did_succeed()
    assert changes(driven) == [
        f"systemctl stop switch@{NEW.id}.service",
        off("old"),
        "rm /opt/x/current",
    ]


def test_settings_of_a_way_back_take_the_size_that_was_noted() -> None:
    unknown = replace(SETTINGS, load=None)
    assert unknown == SETTINGS
    driven = spark(SETTLED, size=2 * 1024**3)
    TestAttempt.run(driven, Outcome(served=True, attempted=True, previous="old"), back=True)
    (told,) = [stdin for _, stdin in driven.commands if stdin and "beside" in str(stdin)] or [None]
    assert told is None or '"beside": true' in told
