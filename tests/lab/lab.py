"""The lab as a whole, for the command line and for tests: up, down, and what is there."""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from deploys.keys import keys_path
from deploys.plan.lock import lock_path
from tests.lab import apt, factory, machine, network, rootfs, services, state
from tests.lab.spark import Handle
from tests.lab.state import (
    FLEET,
    KNOWN_HOSTS,
    RUN,
    STORAGE,
    TWINS,
    Cable,
    LabError,
    Spark,
    State,
)

# Debian packages that the machine needs, with the program that proves each.
PACKAGES = {
    "systemd-container": "systemd-nspawn",
    "mmdebstrap": "mmdebstrap",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "iproute2": "ip",
    "iputils-ping": "ping",
    "iptables": "iptables",
    "openssh-client": "ssh",
    "openssl": "openssl",
    "docker-registry": "docker-registry",
    "apt-utils": "apt-ftparchive",
    "gnupg": "gpg",
    "zstd": "zstd",
    "e2fsprogs": "mkfs.ext4",
    "ethtool": "ethtool",
    "haproxy": "haproxy",
    "ufw": "/usr/sbin/ufw",
    "prometheus": "promtool",
    "prometheus-node-exporter": "prometheus-node-exporter",
}
FINGERPRINT = RUN / "apt-fingerprint"

# Settings of the machine that the lab changes, and that a deploy changes: the kernel is shared.
_KERNEL = (Path("/proc/sys/net/ipv4/ip_forward"), Path("/proc/sys/vm/swappiness"))


class Lab:
    """The lab of this machine; there is one."""

    def up(self, sparks: int = 1, variant: str = "standard", *, pair: bool = False) -> None:
        """Start services and Sparks, and wait until they serve; what a crash left is removed first.

        Args:
            sparks: how many, 1 to 4.
            variant: how all of them left the factory; one of factory.VARIANTS.
            pair: whether the inventory has a replica for each two of them, or one for each.

        Raises:
            LabError: the machine lacks something, another lab is up, or a Spark has no partner.
        """
        _check_machine()
        factory.check(variant)
        names = rootfs.SPARKS[:sparks]
        fleet = fleet_text(names, pair)
        with state.locked():
            before = state.read()
            if before and _whole(before):
                asked = dict.fromkeys(names, variant)
                found = {name: spark.factory for name, spark in before.sparks.items()}
                running = all(spark.running() for spark in self.sparks())
                if found == asked and before.pair == pair and running:
                    print(f"up already: {', '.join(names)}", flush=True)
                    return
                raise LabError(
                    f"another lab is up already, with {', '.join(before.sparks)}; "
                    "first remove it: python -m tests.lab down"
                )
            self._clear()
            with _step("root file system"):
                rootfs.layers()
            with _step("network"):
                lab = State(pair=pair, kernel={file: file.read_text() for file in _KERNEL})
                state.write(lab)
                network.create()
            for service in services.SERVICES:
                with _step(f"{service.name} on {network.HOST}:{service.port}"):
                    lab.services[service.name] = services.start(service)
                    state.write(lab)
            FINGERPRINT.write_text(apt.fingerprint(apt.ensure_repository()))
            KNOWN_HOSTS.write_text("".join(map(_known_host, names)))
            FLEET.write_text(fleet)
            lab.sparks = {name: Spark(factory=variant) for name in names}
            state.write(lab)
            for spark in self.sparks():
                spark.start()
        for spark in self.sparks():
            with _step(f"{spark.name} at {spark.address}"):
                spark.wait_ready()

    def down(self) -> None:
        """Remove everything of the lab but its caches, whatever state it is in."""
        _check_root()
        with state.locked():
            self._clear()

    def spark(self, name: str) -> Handle:
        """Return a Spark.

        Raises:
            LabError: no such Spark is up.
        """
        handle = Handle(name)
        handle.record()
        return handle

    def sparks(self) -> list[Handle]:
        """Return all Sparks that are up, powered off or not."""
        return [Handle(name) for name in state.require().sparks]

    def status(self) -> dict[str, Any]:
        """Return what is up: {"up": bool, "services": {name: bool}, "sparks": {name: {…}}}."""
        lab = state.read()
        if lab is None:
            return {"up": False, "services": {}, "sparks": {}}
        sparks = {
            name: {
                "power": "on" if spark.supervisor and spark.supervisor.alive() else "off",
                "ssh": services.answers(network.address(name), 22),
                "address": network.address(name),
                "factory": spark.factory,
                "cable": _cable(spark.cable),
                "port": spark.cable.port,
                "mtu": spark.cable.mtu,
                "delay_ms": spark.delay * 1000,
                "loss": spark.loss,
            }
            for name, spark in lab.sparks.items()
        }
        alive = {name: process.alive() for name, process in lab.services.items()}
        return {"up": True, "services": alive, "sparks": sparks}

    def _clear(self) -> None:
        lab = state.read()
        for process in lab.services.values() if lab else ():
            process.end()
        for name in rootfs.SPARKS:
            spark = lab.sparks.get(name, Spark()) if lab else Spark()
            if spark.line:
                spark.line.end()
            machine.power_off(name, spark.supervisor)
            machine.forget(name)
        machine.remove_groups()
        network.remove()
        for file, before in lab.kernel.items() if lab else ():
            file.write_text(before)
        for folder in (STORAGE, RUN):
            shutil.rmtree(folder, ignore_errors=True)
        FLEET.unlink(missing_ok=True)
        keys_path(FLEET).unlink(missing_ok=True)
        # The next lab may serve other bits under the same names.
        lock_path(FLEET).unlink(missing_ok=True)


def missing_packages() -> list[str]:
    """Return those of PACKAGES that the machine lacks."""
    return [
        package
        for package, proof in PACKAGES.items()
        if not (Path(proof).exists() if proof.startswith("/") else shutil.which(proof))
    ]


def fleet_text(names: Sequence[str], pair: bool = False) -> str:
    """Return an inventory file (as sparks.yaml).

    Args:
        names: its Sparks.
        pair: whether each two of them are a replica, or each one.

    Raises:
        LabError: a Spark has no partner.
    """
    size = 2 if pair else 1
    if len(names) % size:
        raise LabError(f"found {len(names)} Sparks to be paired; expected 2 or 4")
    sparks = {
        name: {
            "ssh_hostname": network.address(name),
            "ssh_user": factory.USER,
            "ssh_key": str(rootfs.keys() / "id_ed25519"),
            "ssh_known_hosts_file": str(KNOWN_HOSTS),
            "hardware": "lab",
        }
        for name in names
    }
    replicas = {
        f"lab{start // size + 1}": {
            "recipe": "lab-tiny",
            "sparks": list(names[start : start + size]),
        }
        for start in range(0, len(names), size)
    }
    head = "# Written by `python -m tests.lab up`, removed by `down`.\n"
    return head + yaml.safe_dump({"sparks": sparks, "replicas": replicas}, sort_keys=False)


def _cable(cable: Cable) -> str:
    """Say in words which twins a cable carries."""
    whole = [twin for twin in TWINS if twin not in cable.cut]
    if len(whole) == 1:
        return f"twin {whole[0]} only"
    return "whole" if whole else "cut"


def _whole(lab: State) -> bool:
    """Tell whether an `up` came to its end and nothing has crashed since."""
    alive = [name for name, process in lab.services.items() if process.alive()]
    expected = [service.name for service in services.SERVICES]
    return network.is_up() and alive == expected and bool(lab.sparks)


def _known_host(name: str) -> str:
    kind, key, _ = (rootfs.keys() / f"{name}.pub").read_text().split(maxsplit=2)
    return f"{network.address(name)} {kind} {key}\n"


def _check_root() -> None:
    if os.geteuid() != 0:
        raise LabError("the lab needs root, for namespaces and mounts; run the same with sudo")


def _check_machine() -> None:
    _check_root()
    if missing := missing_packages():
        raise LabError(f"programs are missing; first: apt-get install {' '.join(missing)}")


@contextmanager
def _step(what: str) -> Iterator[None]:
    start = time.monotonic()
    print(f"{what} …", end=" ", flush=True)
    yield
    print(f"{time.monotonic() - start:.1f} s", flush=True)
