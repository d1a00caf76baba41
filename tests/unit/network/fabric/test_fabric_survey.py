"""What a Spark reads of its fabric, from a tree that stands for it."""

import json
from ipaddress import IPv4Interface

import pytest
import yaml

from host.state import network
from sparkwright.common.hardware import HARDWARE
from sparkwright.network.fabric.state import FabricState, Netdev, Profile, Rdma

NETDEVS = [netdev for port in HARDWARE["gb10"].fabric_ports for netdev in port]
A, B, *_ = NETDEVS
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
