"""Addresses of groups on a cable, on a switch and in a ring; a pair's are what they always were."""

from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.fabric_plan import (
    FabricPlan,
    fabric_of,
    meetings,
    neighbors,
    netplan_text,
)
from sparkwright.declared.fleet.settings import Settings
from tests.makers.fabric import GB10, PLAN, PORT_0

NETDEVS = [netdev for port in GB10.fabric_ports for netdev in port]
NAMES = st.lists(st.text("abc0-", min_size=1), min_size=2, max_size=8, unique=True)
THREE = ("c", "a", "b")


def plans(sparks: list[str] | tuple[str, ...], **settings: object) -> list[FabricPlan]:
    found = [fabric_of(each, sparks, Settings(**settings)) for each in sparks]  # type: ignore[arg-type]
    return [each for each in found if each]


def test_a_pair_is_what_it_was() -> None:
    assert PLAN.addresses == ("192.168.100.11", "192.168.101.11")
    assert PLAN.of("spark-b").addresses == ("192.168.100.12", "192.168.101.12")
    assert (
        netplan_text(PLAN, PORT_0)
        == """\
# Made by Sparkwright; a change here is undone.
network:
  version: 2
  ethernets:
    enp1s0f0np0:
      optional: true
      dhcp4: false
      dhcp6: false
      accept-ra: false
      link-local: []
      mtu: 9000
      addresses: [192.168.100.11/24]
    enP2p1s0f0np0:
      optional: true
      dhcp4: false
      dhcp6: false
      accept-ra: false
      link-local: []
      mtu: 9000
      addresses: [192.168.101.11/24]
"""
    )


@settings(deadline=None)
@given(NAMES, st.booleans())
def test_addresses_are_apart_inside_and_the_same_for_any_order(
    sparks: list[str], ring: bool
) -> None:
    found = plans(sparks, fabric_ring=ring and len(sparks) == 3)
    addresses = [each for plan in found for each in plan.addresses]
    assert len({*addresses}) == len(addresses) == len(sparks) * (4 if found[0].ring else 2)
    for plan in found:
        assert all(
            any(IPv4Address(each) in network for network in plan.networks)
            for each in plan.addresses
        )
        turned = fabric_of(plan.spark, sparks[::-1], Settings(fabric_ring=plan.ring))
        assert turned
        assert turned.addresses == plan.addresses
        assert plan.peer_addresses == tuple(
            each for peer in plan.peers for each in plan.of(peer).addresses
        )


@settings(deadline=None)
@given(NAMES, st.booleans())
def test_both_ends_of_a_link_mean_the_same(sparks: list[str], ring: bool) -> None:
    for plan in plans(sparks, fabric_ring=ring and len(sparks) == 3):
        for link in plan.links:
            assert link.addresses == link.of_peer.peer_addresses
            for own, theirs in zip(link.interfaces, link.of_peer.interfaces, strict=True):
                assert IPv4Interface(own).network == IPv4Interface(theirs).network


def test_in_a_ring_each_spark_is_known_to_both_others_by_one_address() -> None:
    """Its neighbor on the other cable has a route, by the cable between the two."""
    found = {plan.spark: plan for plan in plans(THREE, fabric_ring=True)}
    networks = [n for plan in found.values() for cable in plan.cables for n in cable.networks]
    assert len({*networks}) == 6
    assert not any(a.overlaps(b) for a, b in combinations({*networks}, 2))
    for plan in found.values():
        own = [IPv4Interface(each).network for each in plan.interfaces]
        routes = {IPv4Network(to): (place, via) for place, to, via in plan.routes}
        for link in plan.links:
            known, to = IPv4Address(link.known_address), IPv4Network(link.known_address)
            place, via = routes.get(to, (2 * link.place, str(known)))
            assert via == link.peer_addresses[0]
            assert IPv4Address(via) in own[place]
        assert len(routes) == 1
    text = netplan_text(found["a"], NETDEVS)
    assert text.count("addresses: ") == 4
    assert text.count("      routes: [{to: 192.168.100.75/32, via: 192.168.100.12}]\n") == 1


@pytest.mark.parametrize(
    ("number", "given_settings", "message"),
    [
        (4, {"fabric_ring": True}, "opposite Sparks have no cable, and NCCL needs one"),
        (8, {"fabric_subnets": ["10.0.0.0/28", "10.0.1.0/24"]}, "10.0.0.0/28 for 8 Sparks; "),
        (
            3,
            {"fabric_ring": True, "fabric_subnets": ["10.0.0.0/24", "10.0.1.0/27"]},
            "found 10.0.1.0/27 for 3 Sparks in a ring; expected a /26 or larger",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_refused(
    number: int, given_settings: dict[str, object], message: str
) -> None:
    with pytest.raises(PlanError) as refusal:
        plans("abcdefgh"[:number], **given_settings)  # type: ignore[arg-type]
    assert message in str(refusal.value)


def test_the_smallest_subnets_hold_their_groups() -> None:
    assert len(plans("ab", fabric_subnets=["10.0.0.0/28", "10.0.1.0/28"])) == 2  # type: ignore[arg-type]
    assert len(plans("abcdefgh", fabric_subnets=["10.0.0.0/27", "10.0.1.0/27"])) == 8  # type: ignore[arg-type]
    small = {"fabric_ring": True, "fabric_subnets": ["10.0.0.0/26", "10.0.1.0/26"]}
    assert plans(THREE, **small)[0].ring
    # What group data say of all groups is no ring for two.
    assert not plans("ab", fabric_ring=True)[0].ring  # type: ignore[arg-type]


@settings(deadline=None)
@given(NAMES)
def test_each_two_meet_once_and_nobody_is_in_two_places(sparks: list[str]) -> None:
    rounds = meetings(sparks)
    assert all(turn[turn[spark]] == spark for turn in rounds for spark in turn)
    met = [frozenset(pair) for turn in rounds for pair in turn.items()]
    pairs = [frozenset(pair) for pair in combinations(sparks, 2)]
    assert sorted(map(sorted, met)) == sorted(map(sorted, pairs * 2))
    assert len(rounds) == len(sparks) - 1 + len(sparks) % 2


@pytest.mark.parametrize(
    ("whole", "left", "ring"),
    [("abcd", "bd", False), ("abcdefgh", "bceh", False), ("abc", "bc", True), ("abc", "ca", True)],
)
def test_who_is_left_of_a_group_keeps_its_addresses(whole: str, left: str, ring: bool) -> None:
    """One that comes back may have them still, and must find nobody at its own."""
    full = {each.spark: each for each in plans(tuple(whole), fabric_ring=ring)}
    for name in left:
        own = fabric_of(name, left, Settings(fabric_ring=ring), whole)
        assert own
        assert {*own.addresses} <= {*full[name].addresses}
        assert own.peers == tuple(sorted({*left} - {name}))
        for link in own.links:
            assert link.peer_addresses == full[name].link(link.peer).peer_addresses
            assert link.known_address == link.peer_addresses[0]
        assert [*own.routes] == []
    assert fabric_of("a", "a", Settings(fabric_ring=ring), whole) is None


@given(NAMES)
def test_each_spark_copies_from_one_and_gives_to_one(sparks: list[str]) -> None:
    head, *others = sparks
    found = {each: neighbors(sparks, each) for each in sparks}
    assert found[head][0] == ""
    assert [found[each][0] for each in others] == sparks[:-1]
    assert [found[each][1] for each in sparks] == [*others, ""]
