"""The environment that makes NCCL, gloo and vLLM use the fabric, from what this Spark has."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

SYSFS = Path("/sys/class/infiniband")


def netdevs(links: Sequence[dict[str, Any]], addresses: Sequence[str]) -> dict[str, str]:
    """Return which interface carries each address, of those that any carries.

    Args:
        links: what `ip -j addr` printed.
        addresses: those of this Spark on the fabric.
    """
    carried = {
        address.get("local"): link["ifname"]
        for link in links
        for address in link.get("addr_info", ())
    }
    return {address: carried[address] for address in addresses if address in carried}


def fabric_environment(
    found: dict[str, str], sysfs: Path = SYSFS
) -> tuple[dict[str, str], list[str]]:
    """Return the variables for a rank of a pair, and warnings for people.

    Args:
        found: address -> interface, twin A first.
        sysfs: the folder of the kernel's RDMA devices.
    """
    (address, first), *_ = found.items()
    names = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")
    environment = dict.fromkeys(names, first) | {"VLLM_HOST_IP": address, "NCCL_DEBUG": "INFO"}
    devices = {netdev: active_device(netdev, sysfs) for netdev in found.values()}
    usable = {netdev: device for netdev, device in devices.items() if device and verbs(device)}
    without = ", ".join(netdev for netdev in devices if netdev not in usable)
    if not usable:
        warning = f"no active RDMA device on {without}: NCCL uses TCP, which is much slower"
        return environment | {"NCCL_IB_DISABLE": "1", "RDMA_OPTIONS": ""}, [warning]
    indexes = {gid_index(usable[found[a]], a) for a in found if found[a] in usable}
    environment |= {
        "NCCL_IB_HCA": ",".join(device.parents[1].name for device in usable.values()),
        "NCCL_IB_DISABLE": "0",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
        "RDMA_OPTIONS": " ".join([f"--device {verbs(port)}" for port in usable.values()]),
    }
    # NCCL takes one index for all devices; where they differ it finds its own.
    if len(indexes) == 1 and (index := indexes.pop()) is not None:
        environment["NCCL_IB_GID_INDEX"] = str(index)
    warning = f"no active RDMA device on {without}: NCCL uses half of the fabric"
    return environment, [warning] if without else []


def active_device(netdev: str, sysfs: Path) -> Path | None:
    """Return the active port (DEVICE/ports/N) of the RDMA device behind an interface, if any."""
    for port in sorted(sysfs.glob("*/ports/*")):
        belongs = (port.parents[1] / "device" / "net" / netdev).exists()
        if belongs and "ACTIVE" in _text(port / "state").split():
            return port
    return None


def verbs(port: Path) -> str | None:
    """Return the file by which programs use the RDMA device of a port, if it has one.

    NCCL needs no other: how its connections are made, sockets tell.
    """
    names = sorted(file.name for file in port.parents[1].glob("device/infiniband_verbs/*"))
    return f"/dev/infiniband/{names[0]}" if names else None


def gid_index(port: Path, address: str) -> int | None:
    """Return the index of a port's RoCE v2 entry for an IPv4 address; None without one."""
    digits = "".join(f"{int(part):02x}" for part in address.split("."))
    mapped = f"0000:0000:0000:0000:0000:ffff:{digits[:4]}:{digits[4:]}"
    for entry in sorted((port / "gids").iterdir(), key=lambda entry: int(entry.name)):
        kind = _text(port / "gid_attrs" / "types" / entry.name)
        if kind == "RoCE v2" and _text(entry) == mapped:
            return int(entry.name)
    return None


def _text(file: Path) -> str:
    # An unused entry of the table cannot be read: EINVAL.
    try:
        return file.read_text("utf-8").strip()
    except OSError:
        return ""
