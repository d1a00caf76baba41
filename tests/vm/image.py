"""The disk of the virtual machine: a Spark's root as the lab has it, with Debian's own kernel.

Run as a program it fills a folder of the cache: kernel, initial file system and disk.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.lab import cache, factory, rootfs
from tests.lab.state import PROJECT

NAME = "spark1"
KERNEL, INITRD, DISK = "vmlinuz", "initrd.img", "disk.img"

# earlyoom is what a deploy would install: the machine has no archive on its network.
_PACKAGES = ("linux-image-amd64", "earlyoom")
# All that its initial file system needs: an emulated processor unpacks it at each boot.
_MODULES = "virtio_pci\nvirtio_blk\next4\n"
# What a kernel of its own does without, and what only makes each boot longer.
_LEFT_OUT = ("lab-kernel", "docker", "containerd", "systemd-networkd-wait-online")
_LAN = "network: {version: 2, renderer: networkd, ethernets: {eth0: {dhcp4: true}}}\n"


def ensure() -> Path:
    """Return the folder of kernel, initial file system and disk, built first if need be."""
    layers = rootfs.layers()

    def build(folder: Path) -> None:
        # In a mount namespace of its own: whatever happens to it, no mount is left behind.
        private = ["unshare", "--mount", "--propagation", "private", sys.executable]
        words = ["-m", __name__, str(folder), *map(str, layers)]
        subprocess.run([*private, *words], cwd=PROJECT, check=True)
        for name in ("root", "upper", "work"):
            shutil.rmtree(folder / name)

    names = [layer.parent.name for layer in layers]
    return cache.entry("vm", [Path(__file__), Path(factory.__file__), *names], build)


def main(folder: Path, layers: list[Path]) -> None:
    """Install a kernel over a stack of layers, and make a disk of them all."""
    os.umask(0o022)
    root = factory.mount_root(layers, folder)
    subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
    settings = root / "etc/initramfs-tools"
    (settings / "conf.d").mkdir(parents=True)
    (settings / "conf.d/vm").write_text("MODULES=list\n")
    (settings / "modules").write_text(_MODULES)
    factory.install(root, _PACKAGES)
    factory.personalize(root, NAME)
    factory.write_netplan(root, "01-lan", _LAN)
    factory.inside(root, "systemctl", "disable", *_LEFT_OUT, "docker.socket")
    for name in (KERNEL, INITRD):
        (built,) = (root / "boot").glob(f"{name}-*")
        shutil.copy(built, folder / name)
    subprocess.run(["umount", str(root / "proc")], check=True)
    make = ["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(folder / DISK), "4G"]
    subprocess.run(make, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), list(map(Path, sys.argv[2:])))
