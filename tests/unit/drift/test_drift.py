"""Drift: what is told of a difference."""

import json
from dataclasses import replace
from ipaddress import IPv4Interface
from typing import Any

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
from sparkwright.engine.engine import engine_differences, parse_engines
from sparkwright.fabric.check import fabric_differences
from sparkwright.fabric.state import FabricState, Netdev, NetplanFile
from sparkwright.fleet.fabric_plan import fabric_plan, netplan_text
from sparkwright.recipe.loader import load_recipe
from sparkwright.release.lock import Lock, unresolved
from sparkwright.weights.weights import weights_difference

RELEASE = "lab-tiny-0a1b2c3d"
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
    assert told(TEXT, FileState("unreadable", detail="Not a directory")).endswith(
        "found what cannot be read (Not a directory)"
    )
    assert told(Directory("/d", mode="700"), FileState("directory", "root", "root", "755")) == (
        "spark-a: /d: expected root:root 700, found root:root 755"
    )
    link = Symlink("/l", "releases/a")
    assert told(link, FileState("link", detail="releases/b")).endswith(
        "expected a link to releases/a, found a link to releases/b"
    )


def test_of_a_secret_not_even_a_hash_is_told() -> None:
    state = FileState("file", "root", "root", "600", CONTENT)
    assert secret_difference("/s", state) == Difference("/s", "the present content", "another")
    assert secret_difference("/s", replace(state, mode="644")).found == "root:root 644"
    assert secret_difference("/s", FileState("absent")).found == "nothing"


def test_weights_in_one_line() -> None:
    wrong = {"a.json": "is missing", "b.json": "has not been verified"}
    assert weights_difference("/w", wrong).found == "a.json is missing, and 1 more"
    assert weights_difference("/w", {"a.json": "is missing"}).found == "a.json is missing"


def engines(**properties: str) -> dict[str, Any]:
    """Return what is told of a Spark on which both releases are known."""
    values = {"current": RELEASE, "active": "active", "enabled": RELEASE, "other": "inactive"}
    values |= {
        "reload": "no",
        "switches": "",
        "failed": "",
        "first": RELEASE,
        "hold": "no",
        **properties,
    }
    units = "\n\n".join(
        f"Id=vllm@{name}.service\nActiveState={active}\nNRestarts=0\n"
        f"NeedDaemonReload={values['reload']}\nJob=\nStatusText="
        for name, active in ((RELEASE, values["active"]), (OTHER, values["other"]))
    )
    parts = {
        "current": f"releases/{values['current']}" if values["current"] else "",
        "enabled": f"vllm@{values['enabled']}.service",
        "share": "",
        "switches": values["switches"],
        "failed": values["failed"],
        "door": f"first {values['first']}\nhold {values['hold']}",
        "units": units,
    }
    lines = [line for name, text in parts.items() for line in [f"@@{name}", *text.splitlines()]]
    state = parse_engines(lines)
    found = engine_differences(state, RELEASE, door=True)
    return {each.what: (each.expected, each.found) for each in found}


def test_engines_that_differ() -> None:
    unit, other = f"vllm@{RELEASE}.service", f"vllm@{OTHER}.service"
    assert engines() == {}
    assert engines(current=OTHER) == {"current release": (RELEASE, OTHER)}
    assert engines(current="") == {"current release": (RELEASE, "none")}
    assert engines(active="failed") == {unit: ("active", "failed")}
    assert engines(failed=f"switch@{OTHER}.service") == {
        f"switch@{OTHER}.service": ("not failed", "failed")
    }
    assert engines(other="active") == {other: ("off", "active")}
    assert engines(enabled=OTHER) == {
        unit: ("enabled", "not enabled"),
        other: ("off", "inactive and boots"),
    }
    assert engines(reload="yes").keys() == {unit, other}
    assert engines(switches=f"switch@{OTHER}.service") == {
        "switch": ("none under way", f"one to {OTHER}")
    }
    assert engines(first=OTHER) == {"engine behind the door": (RELEASE, OTHER)}
    assert engines(hold="yes") == {"engine behind the door": (RELEASE, "none")}


def test_a_fabric_that_differs() -> None:
    plan = fabric_plan("a", ("a", "b"), ("192.168.100.0/24", "192.168.101.0/24"), 9000, 80)
    port = ("enp1s0f0np0", "enP2p1s0f0np0")
    netdev = Netdev(up=True, carrier=True, speed=200000, mtu=9000, mac="")
    file = NetplanFile(NETPLAN, "root:600", netplan_text(plan, port))
    state = FabricState(
        netdevs=dict.fromkeys(port, netdev),
        addresses=tuple(
            (name, IPv4Interface(address))
            for name, address in zip(port, plan.interfaces, strict=True)
        ),
        routes=(),
        netplan=(file,),
        profiles=(),
        rdma={},
        tool=False,
        record="",
        guarded=True,
        reach=None,
    )

    def found(**changes: Any) -> list[tuple[str, str, str]]:
        differences = fabric_differences(plan, port, replace(state, **changes))
        return [tuple(each) for each in differences]

    wanted = (NETPLAN, "the fabric's addresses, root:root 600")
    assert found() == []
    assert found(netplan=()) == [(*wanted, "nothing")]
    other = replace(file, mode="root:644")
    assert found(netplan=(other,)) == [(*wanted, "another text, owner or mode")]
    slow = {port[0]: netdev, port[1]: replace(netdev, mtu=1500, carrier=False)}
    assert found(netdevs=slow) == [(port[1], "a link", "none"), (port[1], "MTU 9000", "1500")]
    assert found(netdevs={port[0]: netdev}) == [(port[1], "an interface", "none of that name")]
    assert found(addresses=state.addresses[:1]) == [(port[1], plan.interfaces[1], "no address")]


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
