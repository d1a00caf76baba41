"""The environment of a rank, from trees as the kernel shows them."""

from pathlib import Path

import pytest

from host.engine import peer_link
from host.engine.container import fabric_environment
from sparkwright.common.ports import LINK_PORT
from sparkwright.plan.release.command import FABRIC_ENVIRONMENT, RING_ENVIRONMENT

FOUND = {"192.168.100.11": "enp1s0f0np0", "192.168.101.11": "enP2p1s0f0np0"}
RING = {**FOUND, "192.168.100.75": "enp1s0f1np1", "192.168.101.75": "enP2p1s0f1np1"}
DEVICES = {netdev: netdev.replace("en", "roce", 1)[:-3] for netdev in RING.values()}
VERBS = {netdev: f"uverbs{2 * number}" for number, netdev in enumerate(RING.values())}
MAPPED = {
    "enp1s0f1np1": "0000:0000:0000:0000:0000:ffff:c0a8:644b",
    "enP2p1s0f1np1": "0000:0000:0000:0000:0000:ffff:c0a8:654b",
    "enp1s0f0np0": "0000:0000:0000:0000:0000:ffff:c0a8:640b",
    "enP2p1s0f0np0": "0000:0000:0000:0000:0000:ffff:c0a8:650b",
}
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"


def device(sysfs: Path, netdev: str, index: int, state: str = "4: ACTIVE") -> None:
    """A device whose table has RoCE v1 and then v2 entries, the address's own at `index`."""
    folder = sysfs / DEVICES[netdev]
    (folder / "device/net" / netdev).mkdir(parents=True)
    (folder / "device/infiniband_verbs" / VERBS[netdev]).mkdir(parents=True)
    port = folder / "ports/1"
    (port / "gids").mkdir(parents=True)
    (port / "gid_attrs/types").mkdir(parents=True)
    (port / "state").write_text(f"{state}\n")
    for number in range(12):
        own = number in (index - 1, index)
        (port / f"gids/{number}").write_text(f"{MAPPED[netdev] if own else EMPTY}\n")
        kind = port / f"gid_attrs/types/{number}"
        kind.write_text("RoCE v2\n" if number % 2 == index % 2 else "IB/RoCE v1\n")


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    return tmp_path / "infiniband"


def test_both_twins(sysfs: Path) -> None:
    for netdev in FOUND.values():
        device(sysfs, netdev, 3)
    assert fabric_environment(FOUND, sysfs) == (
        {
            "VLLM_HOST_IP": "192.168.100.11",
            "NCCL_SOCKET_IFNAME": "enp1s0f0np0",
            "GLOO_SOCKET_IFNAME": "enp1s0f0np0",
            "TP_SOCKET_IFNAME": "enp1s0f0np0",
            "UCX_NET_DEVICES": "enp1s0f0np0",
            "NCCL_DEBUG": "INFO",
            "NCCL_IB_HCA": "rocep1s0f0,roceP2p1s0f0",
            "NCCL_IB_DISABLE": "0",
            "NCCL_IB_GID_INDEX": "3",
            "NCCL_IGNORE_CPU_AFFINITY": "1",
            "RDMA_OPTIONS": "--device /dev/infiniband/uverbs0 --device /dev/infiniband/uverbs2",
        },
        [],
    )
    # A device that programs cannot use is none.
    (sysfs / DEVICES["enp1s0f0np0"] / "device/infiniband_verbs/uverbs0").rmdir()
    environment, warnings = fabric_environment(FOUND, sysfs)
    assert environment["NCCL_IB_HCA"] == "roceP2p1s0f0"
    assert environment["RDMA_OPTIONS"] == "--device /dev/infiniband/uverbs2"
    assert warnings == ["no active RDMA device on enp1s0f0np0: NCCL uses half of the fabric"]


@pytest.mark.parametrize(("indexes", "expected"), [((5, 5), "5"), ((11, 11), "11"), ((3, 5), None)])
def test_the_index_is_found_and_must_be_one(
    sysfs: Path, indexes: tuple[int, int], expected: str | None
) -> None:
    for netdev, index in zip(FOUND.values(), indexes, strict=True):
        device(sysfs, netdev, index)
    environment, warnings = fabric_environment(FOUND, sysfs)
    assert environment.get("NCCL_IB_GID_INDEX") == expected
    assert warnings == []


def test_without_rdma(sysfs: Path) -> None:
    environment, warnings = fabric_environment(FOUND, sysfs)
    assert environment["NCCL_IB_DISABLE"] == "1"
    assert environment["RDMA_OPTIONS"] == ""
    assert environment["NCCL_SOCKET_IFNAME"] == "enp1s0f0np0"
    assert "NCCL_IB_HCA" not in environment
    assert warnings == [
        "no active RDMA device on enp1s0f0np0, enP2p1s0f0np0: NCCL uses TCP, which is much slower"
    ]
    device(sysfs, "enp1s0f0np0", 3)
    device(sysfs, "enP2p1s0f0np0", 3, state="1: DOWN")
    with_rdma, warnings = fabric_environment(FOUND, sysfs)
    assert with_rdma["NCCL_IB_HCA"] == "rocep1s0f0"
    assert warnings == ["no active RDMA device on enP2p1s0f0np0: NCCL uses half of the fabric"]
    # Docker passes on what is set.
    assert {*environment, *with_rdma} == {*FABRIC_ENVIRONMENT, "RDMA_OPTIONS"}
    assert peer_link.PORT == LINK_PORT


def test_in_a_ring_each_cable_has_devices_and_all_meet_at_one_address(sysfs: Path) -> None:
    for netdev in RING.values():
        device(sysfs, netdev, 3)
    environment, warnings = fabric_environment(RING, sysfs)
    pair, _ = fabric_environment(FOUND, sysfs)
    devices = "rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1"
    assert {key: value for key, value in environment.items() if pair.get(key) != value} == {
        "NCCL_IB_HCA": devices,
        "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
        "NCCL_IB_MERGE_NICS": "0",
        "NCCL_NET_PLUGIN": "none",
        "NCCL_CROSS_NIC": "1",
        "RDMA_OPTIONS": " ".join(f"--device /dev/infiniband/uverbs{n}" for n in (0, 2, 4, 6)),
    }
    assert {*environment} == {*FABRIC_ENVIRONMENT, *RING_ENVIRONMENT, "RDMA_OPTIONS"}
    assert warnings == []
