"""What is taken of a hub or registry, and how much; who gets the token; which host key counts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.fleet import Spark
from sparkwright.plan.release import web
from sparkwright.plan.release.lock import CheckpointLock
from sparkwright.plan.release.resolve import resolve_checkpoint, resolve_image
from sparkwright.plan.release.token import Hub
from sparkwright.run.ssh import cause
from tests.component import command_line
from tests.component.sshd import machines
from tests.makers.liar import BUFFERS, PART, Liar, Lie, endless, lying
from tests.security.hostile import SPEAKERS, by_ssh


@pytest.mark.parametrize("name", [".sparkwright.json", ".sparkwright-partial/x", ".sparkwright/x"])
def test_a_listing_with_our_own_names_is_refused(name: str) -> None:
    listing = {"repo": "a/b", "commit": "0" * 40, "files": {name: {"size": 1, "git": "0" * 40}}}
    with pytest.raises(ValueError, match="these are Sparkwright's own"):
        CheckpointLock.model_validate(listing)


@pytest.mark.parametrize(
    ("endpoint", "setting", "sent"),
    [
        ("https://huggingface.co", "https", True),
        ("http://127.0.0.1:8090", "https", True),
        ("http://localhost", "https", True),
        ("http://[::1]/", "https", True),
        ("http://192.168.1.5", "http", True),
        ("https://huggingface.co", "none", False),
        ("http://192.168.1.5", "none", False),
    ],
)
def test_who_gets_the_token(
    endpoint: str, setting: str, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkwright.plan.release.token.own_token", lambda: "hf_x")
    assert Hub(endpoint, setting).token() == ("hf_x" if sent else None)


@pytest.mark.parametrize(
    "endpoint",
    ["http://192.168.1.5", "http://hub", "ftp://127.0.0.2.example", "HTTP://127.evil", "x"],
)
def test_no_token_in_the_clear(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkwright.plan.release.token.own_token", lambda: "hf_x")
    with pytest.raises(PlanError, match="unencrypted; expected https"):
        Hub(endpoint).token()
    monkeypatch.setattr("sparkwright.plan.release.token.own_token", lambda: None)
    assert Hub(endpoint).token() is None


def test_a_host_key_that_nobody_knows_gets_nothing(tmp_path: Path) -> None:
    with machines(tmp_path, "brief") as sparks:
        strict = Spark(ssh_strict_host_key_checking="yes").connection
        inventory = by_ssh(tmp_path, sparks, **strict)
        said = command_line.run(tmp_path, "-y", inventory=inventory, deploy=SPEAKERS).failed()
    assert "brief said" not in said
    assert (tmp_path / "known_hosts").read_text() == ""
    (refused,) = re.findall(r"StrictPolicy.*", said)[:1]
    assert "the inventory takes no other" in cause(refused)


MOST = 1 << 20
Ask = Callable[[str], object]


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(web, "MOST", MOST)


def hub(address: str) -> None:
    resolve_checkpoint("owner/model", "main", address)


def registry(address: str) -> None:
    resolve_image(f"{address.removeprefix('http://')}/owner/image:1", "aarch64")


def without_end(liar: Liar, status: int, **head: object) -> None:
    liar.head(status, **head)
    while True:
        liar.give(PART)


def endless_refusal(liar: Liar) -> None:
    without_end(liar, 401, WWW_Authenticate='Bearer realm="http://127.0.0.1:9"')


def endless_redirection(liar: Liar) -> None:
    without_end(liar, 302, Location="/elsewhere")


def compressed(liar: Liar) -> None:
    """As a few kilobytes that become gigabytes are."""
    liar.head(200, Content_Encoding="gzip")


def slow_head(liar: Liar) -> None:
    """A byte at a time, for longer than the test takes."""
    liar.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(400):
        liar.wfile.write(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("ask", "lie", "found"),
    [
        (hub, endless, "answers of more than 1,048,576 bytes"),
        (hub, endless_redirection, "more than 3 redirections"),
        (hub, compressed, "compressed by gzip, unasked"),
        (registry, endless, "answers of more than 1,048,576 bytes"),
        (registry, endless_refusal, "answers of more than 1,048,576 bytes"),
        (registry, endless_redirection, "more than 3 redirections"),
        (registry, compressed, "compressed by gzip, unasked"),
    ],
)
def test_an_answer_costs_a_bounded_number_of_bytes(ask: Ask, lie: Lie, found: str) -> None:
    with lying(lie) as (liar, address), pytest.raises(PlanError) as caught:
        ask(address)
    assert address.removeprefix("http://") in str(caught.value).partition(": found ")[0]
    assert found in str(caught.value)
    assert "expected at most" in str(caught.value)
    assert "try again later, or take" in str(caught.value)
    assert liar.sent < MOST + BUFFERS


@pytest.mark.parametrize("ask", [hub, registry])
def test_an_answer_that_never_ends_costs_a_bounded_time(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "LONGEST", 0.5)
    with (
        lying(slow_head) as (_, address),
        pytest.raises(PlanError, match=r"found no whole answer within 0\.5 s; expected at most"),
    ):
        ask(address)
