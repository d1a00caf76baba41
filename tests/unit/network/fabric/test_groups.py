"""A fabric of three and more: where its cables lead to, who is let in, what is tried."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from pyinfra.api.deploy import add_deploy
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operations import run_ops

from sparkwright.declared.fleet.fabric_plan import FabricPlan, netplan_text
from sparkwright.machine.firewall.firewall import fabric_rules
from sparkwright.network.fabric import deploy
from sparkwright.network.fabric.cabling import wires_of
from sparkwright.network.fabric.check import fabric_findings, let_in, ports_of, set_up
from sparkwright.network.fabric.link_check import (
    is_measured,
    link_findings,
    probes,
    record,
    slowest,
    speeds,
    with_record,
)
from sparkwright.network.fabric.state import FabricState, Rdma, Reach
from tests.makers.fabric import GB10, PORT_0, PORT_1, SUBNETS, UNPLUGGED, UP, joined, spark
from tests.makers.models import changed
from tests.unit.driven import Driven, fake_host

BOTH = dict.fromkeys((*PORT_0, *PORT_1), UP)
# As NVIDIA's guide has them: port 0 of each to port 1 of the next; the ends of each cable.
GUIDE = ("a0b1", "b0c1", "c0a1")
SIDEWAYS = ("a1b1", "b0c0", "c1a0")


def plan(names: str, ring: bool = False) -> FabricPlan:
    return FabricPlan(names[0], tuple(names), SUBNETS, 9000, 80, ring)


def factory(names: str, **netdevs: Any) -> dict[str, FabricState]:
    return {name: spark(number, **(netdevs or BOTH)) for number, name in enumerate(names)}


def heard(cables: Sequence[str], states: Mapping[str, FabricState], name: str) -> dict[str, Any]:
    """Return the MAC addresses that answer at a Spark's interfaces."""
    ends = [(each[:2], each[2:]) for each in cables] + [(each[2:], each[:2]) for each in cables]
    found: dict[str, tuple[str, ...]] = {}
    for own, there in ends:
        if own[0] == name:
            netdevs, theirs = GB10.fabric_ports[int(own[1])], GB10.fabric_ports[int(there[1])]
            macs = tuple(states[there[0]].netdevs[netdev].mac for netdev in theirs)
            found |= {each: (*found.get(each, ()), *macs) for each in netdevs}
    return found


def told(of: FabricPlan, states: Mapping[str, FabricState], cables: Sequence[str]) -> list[str]:
    wires = wires_of(GB10, heard(cables, states, of.spark), states)
    return [str(each) for each in fabric_findings(of, GB10, states, wires) if each.error]


@pytest.mark.parametrize("cables", [GUIDE, SIDEWAYS])
def test_a_ring_may_be_cabled_in_any_ports(cables: Sequence[str]) -> None:
    states, first = factory("abc"), plan("abc", ring=True)
    for name in "abc":
        own = first.of(name)
        wires = wires_of(GB10, heard(cables, states, name), states)
        ports = ports_of(own, GB10, states, wires)
        assert ports
        for link in own.links:
            port = GB10.fabric_ports.index(ports[link.place])
            assert any(f"{name}{port}" in each and link.peer in each for each in cables)
        assert told(own, states, cables) == []
        assert set_up(own, GB10, joined(own, ports)) == ports
        assert not set_up(own, GB10, changed(joined(own, ports), routes=()))


@pytest.mark.parametrize("cables", [GUIDE, SIDEWAYS])
@pytest.mark.parametrize("left", ["ab", "bc", "ca"])
def test_two_of_a_ring_go_on_by_the_cable_between_them(cables: Sequence[str], left: str) -> None:
    """In whichever ports it is, and whether those of the third one show a link or not."""
    whole, states = factory("abc"), {}
    for name in left:
        states[name] = whole[name]
    first = replace(plan(left, ring=True), whole=("a", "b", "c"))
    for name in left:
        own = first.of(name)
        wires = wires_of(GB10, heard(cables, whole, name), states)
        (port,) = ports_of(own, GB10, states, wires) or ()
        assert any(f"{name}{GB10.fabric_ports.index(port)}" in each for each in cables)
        assert told(own, states, [each for each in cables if {*each} >= {*left}]) == []
        assert set_up(own, GB10, joined(own, (port,))) == (port,)
        assert len(own.addresses) == 2


@pytest.mark.parametrize(
    ("cables", "message"),
    [
        (("a0b1", "a1b0"), "port 0 leads to b and port 1 leads to b. Join each two of a, b and c"),
        (("a0b1",), "port 0 leads to b and port 1 reaches none of the group"),
        (("a0b1", "a0c1"), "port 0 leads to b and c and port 1 reaches none"),
    ],
)
def test_cables_that_make_no_ring_are_told_by_where_they_lead(
    cables: Sequence[str], message: str
) -> None:
    (said,) = told(plan("abc", ring=True), factory("abc"), cables)
    assert said.startswith("error: the cables of a do not make a ring: ")
    assert message in said


def test_a_ring_needs_both_ports() -> None:
    one = factory("abc", **{**BOTH, **dict.fromkeys(PORT_1, UNPLUGGED)})
    (said,) = told(plan("abc", ring=True), one, ())
    assert "a has 1 of 2 ConnectX ports with a link" in said
    assert "a cable from a to b and one to c" in said


def test_cables_from_spark_to_spark_are_no_switch() -> None:
    switch = ("a0b0", "a0c0", "a0d0")
    assert told(plan("abcd"), factory("abcd"), switch) == []
    twice = (*switch, "a1b1", "a1c1", "a1d1")
    assert told(plan("abcd"), factory("abcd"), twice) == []
    (said,) = told(plan("abc"), factory("abc"), GUIDE)
    assert "port 0 leads to b and port 1 leads to c. Set fabric_ring = True" in said
    (said,) = told(plan("abcd"), factory("abcd"), ("a0b1", "b0c1", "c0d1", "d0a1"))
    assert "Put all on a switch: a ring of more than three needs a patched NCCL" in said
    assert told(plan("abc"), factory("abc"), ()) == []


def test_a_switch_wants_all_in_one_port() -> None:
    states = factory("abc", A=None)
    states["c"] = spark(3, **dict.fromkeys(PORT_0, UNPLUGGED), **dict.fromkeys(PORT_1, UP))
    (said,) = told(plan("abc"), states, ())
    assert "Move the cable of c to port 0" in said


def test_fewest_cables_are_moved_and_all_of_them_are_named() -> None:
    for odd, said in (("b", "b to port 1"), ("ab", "c and d to port 0")):
        states = factory("abcd")
        for number, name in enumerate("abcd"):
            port, other = (PORT_0, PORT_1) if name in odd else (PORT_1, PORT_0)
            states[name] = spark(
                number, **dict.fromkeys(port, UP), **dict.fromkeys(other, UNPLUGGED)
            )
        for name in "abcd":
            assert f"Move the cable of {said};" in told(plan("abcd").of(name), states, ())[0]


def test_whose_port_a_cable_of_a_ring_is_in_is_told_by_who_answers_there() -> None:
    first = plan("abc", ring=True)
    states = {n: joined(first.of(n), (PORT_0, PORT_1), k) for k, n in enumerate("abc")}
    link = first.link("b")
    ends, own = (PORT_0, PORT_1), states["a"]
    assert [probe[:2] for probe in probes(link, PORT_0)] == [
        (PORT_0[0], "192.168.100.12"),
        (PORT_0[1], "192.168.101.12"),
        (PORT_0[0], link.known_address),
    ]
    silent = {address: Reach(PORT_0[n], False, False, "-") for n, address in link.reached}
    own = changed(own, reach=silent, rdma={})
    macs = {netdev.mac: name for name in "bc" for netdev in states[name].netdevs.values()}
    known = {mac: name for mac, name in macs.items() if name != "b"}
    there = [states["c"].netdevs[netdev].mac for netdev in PORT_1]
    (said,) = map(str, link_findings(link, ends, own, states["b"], known, there))
    assert "the cable of a leads to c, expected b" in said
    # On a switch others answer as well.
    more = [*there, *(states["b"].netdevs[netdev].mac for netdev in PORT_1)]
    said = " ".join(map(str, link_findings(link, ends, own, states["b"], known, more)))
    assert "b (192.168.100.12) does not answer" in said


def test_the_record_knows_all_links_and_that_of_a_pair_from_before() -> None:
    first, states = plan("abc"), factory("abc")
    made = {
        peer: record(first.link(peer), states["a"], states[peer], (PORT_0, PORT_0))
        for peer in first.peers
    }
    own = states["a"]
    for peer, speed in (("b", 90.0), ("c", 60.0)):
        kept = with_record(own, peer, made[peer] | {"gbits": [speed, speed]})
        own = changed(own, record=json.dumps(kept))
    assert all(is_measured(own, each) for each in made.values())
    assert dict(speeds(own)) == {"b": 180.0, "c": 120.0}
    assert is_measured(changed(own, record=json.dumps(made["b"])), made["b"])
    assert "slowest link is that of a and c: 120 Gb/s" in str(
        slowest({"a and b": 180, "a and c": 120})
    )
    assert slowest({"a and b": 180, "a and c": 170}) is slowest({}) is None
    for bad in ("[]", '{"links": 1}', '{"links": {"b": 1}}', '{"links": {"b": {"gbits": [[]]}}}'):
        assert not dict(speeds(changed(own, record=bad)))
        assert not is_measured(changed(own, record=bad), made["b"])


def test_the_firewall_lets_in_whom_the_guard_lets_in() -> None:
    pair = [rule.text for rule in fabric_rules(plan("ab"))]
    assert pair == [f"allow from 192.168.10{n}.12 to 192.168.10{n}.11" for n in (0, 1)]
    assert len(fabric_rules(plan("abcd"))) == 6
    first = plan("abc", ring=True)
    texts = {rule.text for rule in fabric_rules(first)}
    for link in first.links:
        known = f"allow from {link.known_address} to {first.addresses[0]}"
        assert known in texts


def group(states: Mapping[str, FabricState], ring: bool, **more: Any) -> list[Driven]:
    names = [*states]
    found = []
    for rank, (name, state) in enumerate(states.items()):
        data = {"ranks": names, "rank": rank, "spark": name, "hardware": "gb10", "recipe": "x"}
        parts = {"network.fabric": state.model_dump(mode="json")}
        parts |= {f"network.{key}": value[name] for key, value in more.items()}
        own = fake_host(state=parts, fabric_ring=ring, **data)
        found.append(replace(own, name=f"@fake/{name}"))
    found[0].peers = tuple(found[1:])
    return found


def apply(sparks: list[Driven]) -> list[list[str]]:
    """Run the fabric's deploy on all Sparks; return the commands of each."""
    state, _ = sparks[0]._connect(check_for_changes=False)
    state.config.FAIL_PERCENT = 100
    add_deploy(state, deploy.apply)
    # Where all Sparks have failed, a run ends so.
    with suppress(PyinfraError):
        run_ops(state)
    return [spark.scripts() for spark in sparks]


def answered(of: FabricPlan, states: Mapping[str, FabricState], ports: Any) -> FabricState:
    """Return a Spark's state, whose packets all arrive, with RDMA at all of its cards."""
    own, reach = states[of.spark], {}
    for link in of.links:
        for n, address in link.reached:
            mac = states[link.peer].netdevs[ports[link.peer][link.of_peer.place][n]].mac
            reach[address] = Reach(ports[of.spark][link.place][n], True, True, mac)
    netdevs = [netdev for port in ports[of.spark] for netdev in port]
    rdma = {
        netdev: Rdma(f"roce{netdev[2:-3]}", "1", "ACTIVE", "Ethernet", ((3, gid(ip), "RoCE v2"),))
        for netdev, ip in zip(netdevs, of.addresses, strict=True)
    }
    return changed(own, reach=reach, rdma=rdma)


def gid(address: str) -> str:
    a, b, c, d = map(int, address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def test_a_ring_is_set_up_by_what_answers_at_each_port() -> None:
    states, first = factory("abc"), plan("abc", ring=True)
    answers = {name: {"heard": heard(SIDEWAYS, states, name)} for name in "abc"}
    sparks = group(states, ring=True, neighbors=answers)
    commands = dict(zip("abc", apply(sparks), strict=True))
    # Port 1 of a leads to port 1 of b, port 0 of b to port 0 of c, port 1 of c to port 0 of a.
    for name, ports in {"a": (1, 0), "b": (0, 1), "c": (1, 0)}.items():
        own = first.of(name)
        netdevs = [netdev for port in ports for netdev in GB10.fabric_ports[port]]
        (made,) = [each for each in commands[name] if "--unit sparkwright-fabric" in each]
        assert netplan_text(own, netdevs) in made
        for netdev, interface in zip(netdevs, own.interfaces, strict=True):
            assert f"{netdev}={interface}" in made


def test_who_is_let_in_is_known_by_interface_address_and_card() -> None:
    states, first = factory("abc"), plan("abc", ring=True)
    ports = dict.fromkeys("abc", (PORT_0, PORT_1))
    b = [states["b"].netdevs[netdev].mac for netdev in PORT_1]
    c = [states["c"].netdevs[netdev].mac for netdev in PORT_0]
    assert [*let_in(first, ports, states)] == [
        *(PORT_0[0], "192.168.100.12", b[0], PORT_0[1], "192.168.101.12", b[1]),
        *(PORT_0[0], first.of("b").addresses[0], b[0]),
        *(PORT_1[0], "192.168.100.140", c[0], PORT_1[1], "192.168.101.140", c[1]),
    ]
    switch = [*let_in(plan("abcd"), dict.fromkeys("abcd", (PORT_0,)), factory("abcd"))]
    assert len(switch) == 3 * 2 * 3


@pytest.mark.parametrize(
    ("names", "ring"), [("ab", False), ("abc", True), ("abcd", False), ("abcdefgh", False)]
)
def test_each_link_is_measured_once_by_one_of_its_ends(names: str, ring: bool) -> None:
    first = plan(names, ring)
    ports = dict.fromkeys(names, (PORT_0, PORT_1) if ring else (PORT_0,))
    if ring:  # a0-b1, b0-c1, c0-a1
        assert [plan(names, ring).of(n).link(p).place for n, p in ("ab", "bc", "ca")] == [0, 0, 0]
    up = {n: joined(first.of(n), ports[n], k) for k, n in enumerate(names)}
    states = {n: answered(first.of(n), up, ports) for n in names}
    speed = {name: {"gbits": 92.5} for name in names}
    sparks = group(states, ring, write_bandwidth=speed)
    commands = apply(sparks)
    servers = [each for spark in commands for each in spark if "ib_write_bw" in each]
    records = [each for spark in commands for each in spark if "fabric.json" in each]
    pairs = len(names) * (len(names) - 1) // 2
    assert (len(servers), len(records)) == (2 * pairs, pairs)


def test_a_link_to_a_spark_that_has_left_slows_nobody(caplog: pytest.LogCaptureFixture) -> None:
    ports = dict.fromkeys("abc", (PORT_0,))
    up = {n: joined(plan("abc").of(n), ports[n], k) for k, n in enumerate("abc")}
    states = {n: answered(plan("abc").of(n), up, ports) for n in "abc"}
    speed = {n: {"gbits": 92.5} for n in "abc"}
    for gone, said in (("c", True), ("z", False)):
        made = {"b": {"gbits": [90.0, 90.0]}, gone: {"gbits": [40.0, 40.0]}}
        known = states | {"a": changed(states["a"], record=json.dumps({"links": made}))}
        caplog.clear()
        apply(group(known, False, write_bandwidth=speed))
        assert (f"the slowest link is that of a and {gone}" in caplog.text) == said
