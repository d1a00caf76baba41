"""What stands between a Spark and its fabric; files of other tools."""

from ipaddress import IPv4Interface, IPv4Network

import pytest

from sparkwright.network.fabric.check import common_port, fabric_findings, is_in_force, switched_off
from sparkwright.network.fabric.state import NetplanFile, Profile, Route
from tests.makers.fabric import (
    GB10,
    PLAN,
    PORT_0,
    PORT_1,
    UNPLUGGED,
    UP,
    A,
    B,
    found,
    set_up,
    spark,
)
from tests.makers.models import changed


def test_of_two_cables_the_one_without_the_default_route_is_the_fabric():
    assert common_port(GB10, {"a": spark(), "b": spark(2)}) == PORT_0
    both = spark(**dict.fromkeys(PORT_1, UP))
    assert common_port(GB10, {"a": both, "b": spark(2)}) == PORT_0
    assert common_port(GB10, {"a": both, "b": both}) == PORT_0
    lan_on_0 = changed(both, routes=(Route(A, None),))
    assert common_port(GB10, {"a": lan_on_0, "b": both}) == PORT_1


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (spark(**dict.fromkeys((A, B), UNPLUGGED)), "spark-a has no ConnectX port with a link"),
        (spark(**{B: UNPLUGGED}), f"{A} has a link but {B} has no link. Reboot both"),
        (spark(**{A: None}), f"{B} has a link but {A} is missing. Reboot both"),
        (spark(**dict.fromkeys((*PORT_0, *PORT_1))), "has none of the ConnectX interfaces"),
        (
            spark(**dict.fromkeys(PORT_0, UNPLUGGED), **dict.fromkeys(PORT_1, UP)),
            f"in port 0 of spark-b ({A} and {B}), but in port 1 of spark-a ({' and '.join(PORT_1)})"
            ". Move the cable of spark-a to port 0",
        ),
        (changed(spark(), routes=(Route(A, None),)), f"the default route leaves by {A}"),
        (
            changed(spark(), addresses=(("wlP9s9", IPv4Interface("192.168.101.7/24")),)),
            "192.168.101.0/24 is in use: wlP9s9 has 192.168.101.7/24. Give `fabric_subnets`",
        ),
        (
            changed(spark(), routes=(Route("tun0", IPv4Network("192.168.0.0/16")),)),
            "192.168.100.0/24 is in use: tun0 has a route to 192.168.0.0/16",
        ),
    ],
)
def test_an_error_names_what_was_found_and_the_remedy(own, message):
    told = found(own)
    assert told[0].startswith("error: ")
    assert message in told[0]


def test_the_other_spark_hears_of_different_ports_in_the_same_words():
    moved = spark(2, **dict.fromkeys(PORT_0, UNPLUGGED), **dict.fromkeys(PORT_1, UP))
    states = {"spark-a": spark(), "spark-b": moved}
    assert found(spark(), moved) == [
        str(finding) for finding in fabric_findings(PLAN.of("spark-b"), GB10, states)
    ]


def test_a_slow_link_and_missing_rdma_are_warnings():
    slow = spark(**{A: changed(UP, speed=100_000)})
    assert found(slow) == [
        f"warning: {A} has a link of 100 Gb/s, expected 200. "
        "The cable, or a switch between, is of the slower kind"
    ]
    (told,) = found(changed(spark(), rdma={}))
    assert told.startswith("warning: ")
    assert "NCCL will use TCP" in told


def test_a_port_that_is_switched_off_may_have_a_cable():
    off = spark(**{B: changed(UNPLUGGED, up=False)})
    assert switched_off(GB10, off) == [B]
    assert switched_off(GB10, spark()) == []


def test_the_fabric_is_in_force_when_file_addresses_mtu_and_link_are_right():
    own = set_up(PORT_0)
    assert is_in_force(PLAN, (PORT_0,), own)
    assert found(own) == []
    assert not is_in_force(changed(PLAN, mtu=1500), (PORT_0,), own)
    twin = own.netdevs[B]
    for other in (
        set_up(PORT_0, "network: {}"),
        changed(own, addresses=own.addresses[:1]),
        changed(own, netplan=(changed(own.netplan[0], mode="root:644"),)),
        changed(own, netdevs=own.netdevs | {B: changed(twin, mtu=1500)}),
        changed(own, netdevs=own.netdevs | {B: changed(twin, carrier=False)}),
        gone := changed(own, netdevs={}),
    ):
        assert not is_in_force(PLAN, (PORT_0,), other)
    # DGX OS takes the card off the bus when the cable is pulled out; our file stays.
    assert "until it clicks" in found(gone)[0]


def test_our_own_addresses_in_the_port_of_before_are_not_foreign():
    assert found(set_up(PORT_1)) == []
    assert common_port(GB10, {"a": set_up(PORT_1), "b": spark(2)}) == PORT_0


def test_a_second_cable_does_not_move_a_fabric_that_is_set_up():
    both = dict.fromkeys(PORT_0 + PORT_1, UP)
    pair = [changed(spark(number, **both), netplan=set_up(PORT_1).netplan) for number in (1, 2)]
    assert common_port(GB10, dict(enumerate(pair))) == PORT_1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"network: {{ethernets: {{{A}: {{dhcp4: no}}, {B}: {{dhcp4: no}}}}}}",
            f"sets {A}, {B}: that would be merged with the fabric's file, or fight with it. "
            "Move it away (`sudo mv /etc/netplan/40-cx7.yaml /root/`)",
        ),
        (
            f"network: {{ethernets: {{enP7s7: {{}}, {B}: {{}}}}}}",
            f"sets {B}: netplan would merge that with the fabric's file. Take {B} out of it",
        ),
        (f"network: {{ethernets: {{x: {{match: {{name: {A}}}}}}}}}", "sets x"),
        ("network: {ethernets: {x: {match: {macaddress: '4C:BB:47:00:01:00'}}}}", "sets x"),
        (f"network: {{bonds: {{bond0: {{interfaces: [{A}, {B}]}}}}}}", "sets bond0"),
        # As NetworkManager on Ubuntu writes a change to an entry of another file.
        (f"network: {{ethernets: {{{A}: {{match: {{}}, mtu: 1500}}}}}}", f"sets {A}: that would"),
        (f"network: {{ethernets: {{{A}: {{}}}}, wifis: {{wlP9s9: {{}}}}}}", f"Take {A} out of it"),
        ("network: [", "is not YAML"),
    ],
)
def test_a_file_of_another_tool_that_sets_a_twin_is_an_error(text, message):
    file = NetplanFile("/etc/netplan/40-cx7.yaml", "root:600", text)
    own = spark()
    (told,) = found(changed(own, netplan=(*own.netplan, file)))
    assert told.startswith("error: /etc/netplan/40-cx7.yaml ")
    assert message in told


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("network: {ethernets: {all-en: {match: {name: 'en*'}, dhcp4: true}}}", 1),
        ("network: {ethernets: {any: {match: {}, dhcp4: true}}}", 1),
        ("network: {ethernets: {x: {match: {name: 'wl*'}}}}", 0),
        (f"network: {{ethernets: {{{PORT_1[0]}: {{dhcp4: true}}}}}}", 0),
        ("network: {renderer: NetworkManager}", 0),
        ("network: {ethernets: }", 0),
        ("", 0),
    ],
)
def test_a_pattern_is_a_warning_and_other_interfaces_are_nothing(text, warnings):
    own = changed(spark(), netplan=(NetplanFile("/etc/netplan/50.yaml", "root:600", text),))
    told = found(own)
    assert len(told) == warnings
    assert all(line.startswith("warning: the entry ") for line in told)


@pytest.mark.parametrize(
    ("setting", "findings"),
    [
        ("connection.autoconnect-priority: '-999'", 0),
        ("connection.autoconnect: 'false'", 0),
        ("connection.autoconnect-priority: '5'", 1),
        ("connection.timestamp: '1795342587'", 1),
    ],
)
def test_a_connection_that_gives_way_to_ours_may_stay(setting, findings):
    for entry in ("NM-0a", A):
        text = (
            f"network: {{ethernets: {{{entry}: {{match: {{name: {A}}}, "
            f"networkmanager: {{passthrough: {{{setting}}}}}}}}}}}"
        )
        file = NetplanFile("/etc/netplan/90-NM-0a.yaml", "root:600", text)
        # Under the name of a twin it is merged with ours, whatever it says.
        expected = findings if entry != A else 1
        assert len(found(changed(spark(), netplan=(file,)))) == expected


def test_a_file_that_another_one_hides_does_not_count():
    bad = f"network: {{ethernets: {{{A}: {{}}}}}}"
    files = (
        NetplanFile("/usr/lib/netplan/40-cx7.yaml", "root:644", bad),
        NetplanFile("/etc/netplan/40-cx7.yaml", "root:600", ""),
    )
    assert found(changed(spark(), netplan=files)) == []


def test_a_profile_of_networkmanager_that_sets_a_twin_is_an_error():
    path = "/etc/NetworkManager/system-connections/my cx7.nmconnection"
    for profile in (Profile(path, A, ""), Profile(path, "", "4c:bb:47:00:01:01")):
        (told,) = found(changed(spark(), profiles=(profile,)))
        assert f"`sudo mv '{path}' /root/ && sudo netplan generate && sudo nmcli connection" in told
    assert found(changed(spark(), profiles=(Profile(path, "", ""),))) == []
