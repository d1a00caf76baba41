"""What labs need of the machine, and what is built once for all of them."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from tests.lab import apt, archive, hub, registry, rootfs
from tests.lab.state import Engine, LabError

# Debian packages that the machine needs, with the program that proves each.
PACKAGES = {
    "systemd-container": "systemd-nspawn",
    "mmdebstrap": "mmdebstrap",
    "binutils": "strip",
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
    "slirp4netns": "slirp4netns",
    "haproxy": "haproxy",
    "ufw": "/usr/sbin/ufw",
    "squid": "/usr/sbin/squid",
    "prometheus": "promtool",
    "prometheus-node-exporter": "prometheus-node-exporter",
}


def build() -> None:
    check_machine()
    with step("root file system"):
        rootfs.build()
    with step("apt repositories"):
        apt.ensure_repository()
        archive.ensure()
    with step("models"):
        hub.ensure_repositories()
    for engine in get_args(Engine):
        with step(f"engine image: {engine}"):
            registry.ensure_image(engine)


def missing_packages() -> list[str]:
    return [
        package
        for package, proof in PACKAGES.items()
        if not (Path(proof).exists() if proof.startswith("/") else shutil.which(proof))
    ]


def check_root() -> None:
    if os.geteuid() != 0:
        raise LabError("the lab needs root, for namespaces and mounts; run the same with sudo")


def check_machine() -> None:
    check_root()
    if missing := missing_packages():
        raise LabError(f"programs are missing; first: apt-get install {' '.join(missing)}")


@contextmanager
def step(what: str) -> Iterator[None]:
    start = time.monotonic()
    print(f"{what} …", end=" ", flush=True)
    yield
    print(f"{time.monotonic() - start:.1f} s", flush=True)
