"""Drift: what is told of a difference."""

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

from sparkwright.artifacts.weights.weights import weights_difference
from sparkwright.common.difference import Difference, as_json, exit_status, line
from sparkwright.common.files import (
    Directory,
    FileState,
    ManagedFile,
    Symlink,
    file_difference,
    secret_difference,
)
from sparkwright.common.placed import NETPLAN
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.engine.state import engine_differences
from sparkwright.network.fabric.check import fabric_differences
from sparkwright.plan.release.lock import Lock, unresolved
from tests.makers.engine import NEW, state_of
from tests.makers.engine import engines as made_engines
from tests.makers.fabric import PLAN, PORT_0, A, B, set_up
from tests.makers.models import changed

RELEASE = NEW.id
OTHER = "lab-tiny-99999999"
TEXT = ManagedFile("/etc/x", "a\n")
CONTENT = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"


def told(entry: ManagedFile | Directory | Symlink, state: FileState) -> str:
    return line("spark-a", file_difference(entry, state))


def test_a_file_that_differs() -> None:
    theirs = FileState("file", "root", "root", "644", "b" * 64)
    assert told(TEXT, theirs) == (
        f"spark-a: /etc/x: expected content sha256:{CONTENT[:12]}, found sha256:bbbbbbbbbbbb"
    )
    open_to_all = FileState("file", "spark", "root", "666", CONTENT)
    assert told(TEXT, open_to_all).endswith("expected root:root 644, found spark:root 666")
    assert told(TEXT, FileState("absent")).endswith("expected a file, found nothing")
    assert told(TEXT, FileState("directory")).endswith("found a directory")
    unread = FileState("unreadable", detail="Not a directory")
    assert told(TEXT, unread).endswith("found what cannot be read (Not a directory)")
    assert told(Directory("/d", mode="700"), FileState("directory", "root", "root", "755")) == (
        "spark-a: /d: expected root:root 700, found root:root 755"
    )
    link = Symlink("/l", "releases/a")
    assert told(link, FileState("directory", link="releases/b")).endswith(
        "expected a link to releases/a, found a link to releases/b"
    )


def test_of_a_secret_not_even_a_hash_is_told() -> None:
    state = FileState("file", "root", "root", "600", CONTENT)
    absent = FileState("absent")
    for text, found, told in (
        ("other", state, ("the present content", "another")),
        ("other", replace(state, mode="644"), ("root:root 600", "root:root 644")),
        ("other", absent, ("a file", "nothing")),
        (None, state, ("nothing", "something")),
    ):
        assert secret_difference("/s", text, found) == Difference("/s", *told)
    assert secret_difference("/s", None, absent) is None
    same = replace(state, detail=sha256(b"text").hexdigest(), changed=7)
    assert secret_difference("/s", "text", same) is None


def test_weights_in_one_line() -> None:
    wrong = {"a.json": "is missing", "b.json": "has not been verified"}
    assert weights_difference("/w", wrong).found == "a.json is missing, and 1 more"
    assert weights_difference("/w", {"a.json": "is missing"}).found == "a.json is missing"


def engines(own: str = "active", other: str = "inactive", **changes: Any) -> dict[str, Any]:
    """Return what is told of a Spark on which both releases are known."""
    serves = dict.fromkeys(("current", "enabled", "first"), RELEASE)
    said = made_engines((RELEASE, own), (OTHER, other), **{**serves, **changes})  # type: ignore[arg-type]
    found = engine_differences(state_of(said), RELEASE, door=True)
    return {each.what: (each.expected, each.found) for each in found}


def test_engines_that_differ() -> None:
    unit, other = f"vllm@{RELEASE}.service", f"vllm@{OTHER}.service"
    assert engines() == {}
    assert engines(current=OTHER) == {"current release": (RELEASE, OTHER)}
    assert engines(current="") == {"current release": (RELEASE, "none")}
    assert engines("failed") == {unit: ("active", "failed")}
    switch = f"switch@{OTHER}.service"
    assert engines(failed=switch) == {switch: ("not failed", "failed")}
    assert engines(other="active") == {other: ("off", "active")}
    boots = {unit: ("enabled", "not enabled"), other: ("off", "inactive and boots")}
    assert engines(enabled=OTHER) == boots
    assert engines(outdated=True).keys() == {unit, other}
    assert engines(switches=OTHER) == {"switch": ("none under way", f"one to {OTHER}")}
    assert engines(first=OTHER) == {"engine behind the door": (RELEASE, OTHER)}
    assert engines(hold="yes") == {"engine behind the door": (RELEASE, "none")}


def test_a_fabric_that_differs() -> None:
    state = set_up(PORT_0)

    def found(**changes: Any) -> list[tuple[str, str, str]]:
        return [tuple(each) for each in fabric_differences(PLAN, PORT_0, changed(state, **changes))]

    wanted = (NETPLAN, "the fabric's addresses, root:root 600")
    assert found(guarded=True) == []
    assert found(guarded=True, netplan=()) == [(*wanted, "nothing")]
    other = replace(state.netplan[0], mode="root:644")
    assert found(netplan=(other,)) == [(*wanted, "another text, owner or mode")]
    slow = state.netdevs | {B: replace(state.netdevs[B], mtu=1500, carrier=False)}
    assert found(netdevs=slow) == [(B, "a link", "none"), (B, "MTU 9000", "1500")]
    alone = {A: state.netdevs[A]}
    assert found(netdevs=alone) == [(B, "an interface", "none of that name")]
    assert found(addresses=state.addresses[:1]) == [(B, PLAN.interfaces[1], "no address")]


def test_what_only_a_run_may_ask_for() -> None:
    recipe = load_recipe("lab-tiny")
    problems = unresolved([recipe, recipe], Lock(), "sparks.lock.yaml")
    assert len(problems) == 2
    assert all(each.startswith("sparks.lock.yaml: ") for each in problems)
    assert all("is not in the lock yet" in each for each in problems)


def test_the_result_for_machines() -> None:
    found = {"spark-b": [Difference("ufw", "on", "off")], "spark-a": []}
    told = json.loads(as_json(found, {"spark-c": "no answer"}, 1795000000.4))
    assert told == {
        "time": 1795000000,
        "sparks": ["spark-a", "spark-b"],
        "differences": [{"spark": "spark-b", "what": "ufw", "expected": "on", "found": "off"}],
        "not_read": [{"spark": "spark-c", "reason": "no answer"}],
    }
    assert exit_status(found, []) == 2
    assert exit_status({"spark-a": []}, []) == 0
    # What is not known is never told as sound, nor as all that differs.
    assert exit_status(found, ["spark-c"]) == 1
