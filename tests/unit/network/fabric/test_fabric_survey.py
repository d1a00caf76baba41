"""What a Spark reads of its fabric; the link between the two, and the speed of its RDMA."""

import json
import os
from ipaddress import IPv4Interface

import pytest
import yaml

from host.state import network, readers
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.network.fabric.link_check import (
    bandwidth_findings,
    is_measured,
    link_findings,
    probes,
    record,
    server_script,
)
from sparkwright.network.fabric.state import FabricState, Netdev, Profile, Rdma, Reach
from tests.makers.fabric import GB10, LINK, PLAN, PORT_0, SUBNETS, A, B, spark
from tests.makers.models import changed
from tests.makers.shell import program, shell

NETDEVS = [netdev for port in GB10.fabric_ports for netdev in port]
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
OWN = "0000:0000:0000:0000:0000:ffff:c0a8:640b"


def put(tree, files):
    for path, text in files.items():
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """Read a tree in place of the root folder."""
    for name, path in (("_SYS", "/sys/class"), ("_PROFILES", network._PROFILES)):
        monkeypatch.setattr(network, name, f"{tmp_path}{path}")
    monkeypatch.setattr(network, "_NETPLAN", [f"{tmp_path}{each}" for each in network._NETPLAN])

    def read(**arguments):
        ask = FabricState.ask(root="/opt/x", netdevs=NETDEVS, **arguments)
        said = json.dumps({"known": network.fabric(**ask.arguments)})
        return ask.value(said.replace(str(tmp_path), ""))

    return read


@pytest.fixture
def tree(tmp_path):
    net, rdma = "sys/class/net", "sys/class/infiniband/rocep1s0f0"
    put(
        tmp_path,
        {
            f"{net}/{A}/flags": "0x1003\n",
            f"{net}/{A}/carrier": "1\n",
            f"{net}/{A}/speed": "200000\n",
            f"{net}/{A}/mtu": "9000\n",
            f"{net}/{A}/address": "4c:bb:47:00:00:01\n",
            # The kernel refuses to read the carrier of an interface that is switched off.
            f"{net}/{B}/flags": "0x1002\n",
            f"{net}/{B}/speed": "-1\n",
            f"{net}/{B}/mtu": "1500\n",
            f"{net}/{B}/address": "4c:bb:47:00:00:02\n",
            f"{rdma}/device/net/{A}/mtu": "",
            f"{rdma}/ports/1/state": "4: ACTIVE\n",
            f"{rdma}/ports/1/link_layer": "Ethernet\n",
            f"{rdma}/ports/1/gids/0": "fe80:0000:0000:0000:4ebb:47ff:fe00:0001\n",
            f"{rdma}/ports/1/gids/1": f"{ZERO}\n",
            f"{rdma}/ports/1/gids/5": f"{OWN}\n",
            f"{rdma}/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
            f"{rdma}/ports/1/gid_attrs/types/5": "RoCE v2\n",
        },
    )
    return tmp_path


def test_interfaces_and_their_rdma_devices(tree, survey):
    state = survey()
    assert state.netdevs == {
        A: Netdev(up=True, carrier=True, speed=200_000, mtu=9000, mac="4c:bb:47:00:00:01"),
        B: Netdev(up=False, carrier=False, speed=None, mtu=1500, mac="4c:bb:47:00:00:02"),
    }
    link_local = "fe80:0000:0000:0000:4ebb:47ff:fe00:0001"
    gids = ((0, link_local, "IB/RoCE v1"), (5, OWN, "RoCE v2"))
    assert state.rdma == {A: Rdma("rocep1s0f0", "1", "ACTIVE", "Ethernet", gids)}


def test_a_machine_without_any_of_it(survey):
    state = survey()
    assert (state.netdevs, state.rdma, state.netplan, state.profiles) == ({}, {}, (), ())
    assert (state.record, state.guarded) == ("", False)
    assert ("lo", IPv4Interface("127.0.0.1/8")) in state.addresses


def test_settings_of_others_come_without_their_secrets(tree, survey):
    wifi = """\
network:
  wifis:
    wlP9s9:
      access-points:
        "my-psk-net":
          password: "hunter2, too"
        other: {password: 'hunter2, {}', hidden: true}
      auth: {password: hunter2}
"""
    connections = "etc/NetworkManager/system-connections"
    put(
        tree,
        {
            "etc/netplan/50-wifi.yaml": wifi,
            "etc/netplan/99-nvidia-sync-cluster.yaml": "network: {}",
            "usr/lib/netplan/00-network-manager-all.yaml": "",
            f"{connections}/my cx7.nmconnection": f"[connection]\nid=x\ninterface-name={A}\n",
            f"{connections}/wifi.nmconnection": "mac-address=AA:BB:CC:00:11:22\npsk=hunter2",
        },
    )
    state = survey()
    assert "hunter2" not in repr(state)
    assert [file.path for file in state.netplan] == [
        "/etc/netplan/50-wifi.yaml",
        "/etc/netplan/99-nvidia-sync-cluster.yaml",
        "/usr/lib/netplan/00-network-manager-all.yaml",
    ]
    assert yaml.safe_load(state.netplan[0].text)["network"]["wifis"]["wlP9s9"] == {
        "access-points": {
            "my-psk-net": {"password": "hidden"},
            "other": {"password": "hidden", "hidden": True},
        },
        "auth": {"password": "hidden"},
    }
    assert state.netplan[1].text == "network: {}"
    assert state.profiles == (
        Profile(f"/{connections}/my cx7.nmconnection", "enp1s0f0np0", ""),
        Profile(f"/{connections}/wifi.nmconnection", "", "aa:bb:cc:00:11:22"),
    )


PEER, ENDS = spark(2), (PORT_0, PORT_0)
GIDS = (
    (2, OWN, "IB/RoCE v1"),
    (5, OWN, "RoCE v2"),
    (7, "0000:0000:0000:0000:0000:ffff:c0a8:650b", "RoCE v2"),
)
# As perftest prints it; the figures are those of NVIDIA's guide for one twin.
OUTPUT = """\
 Mtu             : 1024[B]
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             92.58              92.57              0.176564
"""


def linked(**reaches):
    """A Spark whose twins both reach the peer, but for what `reaches` replaces."""
    reach = {
        address: Reach(netdev, True, True, PEER.netdevs[netdev].mac)
        for netdev, address in zip(PORT_0, LINK.peer_addresses, strict=True)
    }
    own = spark()
    rdma = {netdev: changed(device, gids=GIDS) for netdev, device in own.rdma.items()}
    return changed(own, reach=reach | reaches, rdma=rdma)


def found(own):
    return [str(finding) for finding in link_findings(LINK, ENDS, own, PEER, {})]


def with_rdma(**changes):
    own = linked()
    return changed(own, rdma=own.rdma | {A: changed(own.rdma[A], **changes)})


def test_a_sound_link_is_silent():
    assert probes(LINK, PORT_0) == [(A, "192.168.100.12", 9000), (B, "192.168.101.12", 9000)]
    assert found(linked()) == []
    assert found(changed(linked(), rdma={})) == []


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            Reach(A, False, True, "-"),
            "192.168.100.12 answers small packets but none of 9000 bytes: something between spark-a"
            " and spark-b has a smaller MTU. Set the MTU of the switch to 9000 or more, or "
            "set `fabric_mtu`",
        ),
        (Reach(A, False, False, "-"), f"spark-b (192.168.100.12) does not answer by {A}"),
        (Reach("enP7s7", True, True, "-"), f"leave by enP7s7, expected {A}"),
        (Reach(A, True, True, "00:00:5e:00:00:01"), "another machine answers for 192.168.100.12"),
        (changed(linked(), reach=None), "iputils-ping"),
        (with_rdma(state="DOWN"), "is DOWN, expected ACTIVE"),
        (with_rdma(link_layer="InfiniBand"), "is in InfiniBand mode"),
        # Of its type there is none.
        (with_rdma(gids=GIDS[:1]), "has no RoCE v2 GID for 192.168.100.11"),
    ],
)
def test_each_fault_of_the_link_has_its_words(own, message):
    own = linked(**{"192.168.100.12": own}) if isinstance(own, Reach) else own
    (told,) = found(own)
    assert message in told


def test_the_client_waits_for_the_server(tmp_path, monkeypatch):
    """The average is read from the table; without a table there is no result."""
    program(
        tmp_path / "ib_write_bw",
        f"""\
[ "$*" = "-d rocep1s0f0 -i 1 -x 5 -p 12000 -F --report_gbits 192.168.100.12" ] || exit 2
[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; echo "Couldn't connect"; exit 1; }}
cat <<'END'
{OUTPUT}END""",
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    monkeypatch.setattr(readers, "_ENVIRONMENT", {"PATH": path})
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(network.time, "sleep", lambda _: None)
    twin = ("rocep1s0f0", 5, 12000, "192.168.100.12")
    assert network.write_bandwidth(*twin, patience=60) == {"gbits": 92.57}
    assert network.write_bandwidth("other", *twin[1:], patience=0) == {"gbits": None}
    program(tmp_path / "ib_write_bw", "exec sleep 60")
    assert network.write_bandwidth(*twin, patience=0.2) == {"gbits": None}


def test_a_server_without_a_client_fails(tmp_path):
    program(tmp_path / "ib_write_bw", "exit 1")
    done = shell(server_script("rocep1s0f0", 5, 12000), tmp_path, check=False)
    assert done.returncode == 1
    assert "the other Spark did not measure rocep1s0f0" in done.stderr


def test_slow_rdma_is_an_error_with_the_cure():
    assert not [*bandwidth_findings(LINK, PORT_0, [92.57, 97.28])]
    slow, none = map(str, bandwidth_findings(LINK, PORT_0, [13.2, None]))
    assert f"by {A} reaches 13.2 Gb/s, expected 80" in slow
    assert "unplug the power of both for 60 s" in slow
    assert f"by {B} gave no result" in none


def test_a_link_is_measured_once_and_another_one_again():
    own, link = spark(), record(LINK, spark(), PEER, ENDS)
    assert not is_measured(own, link)
    own = changed(own, record=json.dumps(link | {"gbits": [92.57, 97.28]}))
    assert is_measured(own, link)
    assert not is_measured(own, record(LINK, own, spark(3), ENDS))
    slower = changed(PLAN, mtu=1500).link("spark-b")
    assert not is_measured(own, record(slower, own, PEER, ENDS))
    assert not is_measured(changed(own, record="[]"), link)


def _told(wires, outside=(), half=False):
    """Return what each Spark of several pairs says: a and b, c and d, e and f are to be pairs.

    Each of `wires` names the Sparks at the ends of a cable, `outside` those of another inventory;
    of a `half` link only the first twin brings packets through.
    """
    names = sorted("".join(wires))
    states = {name: spark(number) for number, name in enumerate(names)}
    plans = {}
    for a, b in zip(names[::2], names[1::2], strict=True):
        plans[a] = FabricPlan(a, (a, b), SUBNETS, 9000, 80).link(b)
        plans[b] = plans[a].of_peer
    ends = {one: other for a, b in wires for one, other in ((a, b), (b, a))}
    told = {}
    for name in sorted({*names} - {*outside}):
        plan, far = plans[name], ends[name]
        reach = {}
        for place, netdev in enumerate(PORT_0):
            mac = states[far].netdevs[netdev].mac
            same = plans[far].addresses[place] == plan.addresses[place]
            answer = "-" if same or (half and place) else mac
            # The firewall of another pair drops these packets.
            works = far == plan.peer
            reach[plan.peer_addresses[place]] = Reach(netdev, works, works, answer)
        others = {*names} - {*outside, name, plan.peer}
        known = {netdev.mac: each for each in others for netdev in states[each].netdevs.values()}
        own = changed(states[name], reach=reach, rdma={})
        found = link_findings(plan, ENDS, own, states[plan.peer], known)
        told[name] = [str(finding) for finding in found]
    return told


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("wires", [("ad", "bc"), ("ad", "cf", "eb")], ids=["crossed", "rotated"])
def test_cables_of_several_pairs_that_are_crossed(wires, half):
    ends = {one: other for a, b in wires for one, other in ((a, b), (b, a))}
    peers = dict(zip("abcdef", "badcfe", strict=True))
    for name, said in _told(wires, half=half).items():
        assert said == [
            f"error: the cable of {name} leads to {ends[name]}, expected {peers[name]}. Pull its "
            f"other end out of {ends[name]}, and put it into the same port of {peers[name]}"
        ]


def test_cables_between_sparks_of_the_same_number():
    """Nobody answers: that the far end has another pair's address does not show by a ping."""
    for said in _told(("ac", "bd")).values():
        assert all("does not answer by" in each and "is the other end" in each for each in said)


def test_a_cable_to_a_spark_outside_of_the_inventory():
    told = _told(("ad", "bc"), outside="cd")
    assert sorted(told) == ["a", "b"]
    for name, said in told.items():
        assert len(said) == 2
        assert all("error: another machine " in each for each in said)
        peer = {"a": "b", "b": "a"}[name]
        assert all(f"not in this run: put its other end into {peer}." in each for each in said)
