"""The engine's container, by the docker command; and the environment that has it use the fabric."""

import asyncio
import os
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

# Docker may have 100 GB of memory to give back to the kernel before it answers.
PATIENCE = 60
# Between SIGKILL and the end of a process.
GOODBYE = 5
SYSFS = Path("/sys/class/infiniband")
# Of a ring without a switch: a device of either cable reaches one neighbor only. NVIDIA's own test
# sets the first (dgx-spark-playbooks, spark_cluster_setup.py); sparkrun all four, and its owners
# serve so (spark-arena/sparkrun#157, #174). Devices that are merged, or a plugin in the place of
# NCCL's own transport, do not look for the one of the right subnet.
RING = {
    "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
    "NCCL_IB_MERGE_NICS": "0",
    "NCCL_NET_PLUGIN": "none",
    "NCCL_CROSS_NIC": "1",
}


class Container:
    """One container, and the program in whose foreground it runs."""

    def __init__(self, name: str, command: Path) -> None:
        self._name = name
        self._command = command
        self._client: Process | None = None
        # There may be a container of our making.
        self.begun = False

    @property
    def running(self) -> bool:
        """Tell whether the client runs."""
        return self._client is not None and self._client.returncode is None

    async def start(self, environment: dict[str, str], *, quiet: bool = False) -> None:
        """Start the client with these variables on top of our own."""
        self.begun = True
        output = DEVNULL if quiet else None
        self._client = await asyncio.create_subprocess_exec(
            self._command,
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | environment,
        )

    async def adopt(self, name: str) -> bool:
        """Give the container of another name this one's, and follow it; tell whether it was there.

        The client ends with the container's exit status, as that of `start` does.
        """
        self.begun = True
        if await docker("rename", name, self._name):
            return False
        self._client = await asyncio.create_subprocess_exec(
            *("docker", "attach", "--no-stdin", "--sig-proxy=false", self._name), stdin=DEVNULL
        )
        return True

    async def ended(self) -> int:
        """Wait for the end; return the container's exit status."""
        assert self._client
        return await self._client.wait()

    async def stop(self, seconds: int) -> None:
        """SIGTERM, and SIGKILL after so many seconds; return when that is done."""
        if self.running:
            await docker("stop", "-t", str(seconds), self._name, patience=seconds + PATIENCE)

    async def remove(self) -> str | None:
        """Remove the container, whatever its state; return why it may still be there.

        SIGKILL, not SIGTERM: the engine may be stopped by a signal.
        """
        if self.running:
            await docker("kill", self._name)
            with suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE):
                    await self.ended()
        if self.running:
            assert self._client
            await _kill(self._client)
        problem = await docker("rm", "--force", self._name)
        deadline = time.monotonic() + GOODBYE
        # One that was adopted ends before Docker has removed it.
        while problem and "already in progress" in problem and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            problem = await docker("rm", "--force", self._name)
        return None if problem and "No such container" in problem else problem


async def docker(*arguments: str, patience: float = PATIENCE) -> str | None:
    """Run a docker command; return None, or what went wrong."""
    try:
        process = await asyncio.create_subprocess_exec(
            "docker", *arguments, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
    except OSError as error:
        return f"docker: {error.strerror}"
    try:
        async with asyncio.timeout(patience):
            _, errors = await process.communicate()
    except TimeoutError:
        return f"docker {arguments[0]}: no answer in {patience} s"
    finally:
        if process.returncode is None:
            await _kill(process)
    if process.returncode == 0:
        return None
    return errors.decode(errors="replace").strip() or f"exit status {process.returncode}"


async def _kill(process: Process) -> None:
    with suppress(ProcessLookupError, TimeoutError):
        process.kill()
        async with asyncio.timeout(GOODBYE):
            await process.wait()


def netdevs(links: Sequence[dict[str, Any]], addresses: Sequence[str]) -> dict[str, str]:
    """Return which interface carries each address, of those that any carries; by `ip -j addr`."""
    carried = {
        address.get("local"): link["ifname"]
        for link in links
        for address in link.get("addr_info", ())
    }
    return {address: carried[address] for address in addresses if address in carried}


def fabric_environment(
    found: dict[str, str], sysfs: Path = SYSFS
) -> tuple[dict[str, str], list[str]]:
    """Return what makes NCCL, gloo and vLLM of a rank use the fabric, and warnings for people.

    Args:
        found: address -> interface, twin A first; in a ring, those of both cables. All Sparks of
            a group reach the first one, also in a ring: nothing meets on the LAN, where anybody
            could join in.
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
        **(RING if len(found) > 2 else {}),
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
    mapped = IPv6Address(f"::ffff:{address}").exploded
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
