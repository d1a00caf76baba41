"""The factory: what makes a Debian root a DGX Spark on its first day, and what may be amiss there.

Run as a program it fills the factory's layer, from tests.lab.rootfs.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.lab import apt, network, rootfs
from tests.lab.state import LabError

USER = "nvidia"
SUDO_PASSWORD = "spark"
# Bytes; less than any engine image needs.
SMALL_DISK = 512 * 1024**2

# The lab asks a Spark that boots whether port 22 answers, more often than sshd likes.
_SSHD = "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPerSourcePenalties no\n"
_LAN_NETPLAN = """\
network:
  version: 2
  renderer: networkd
  ethernets:
    {port}:
      addresses: [{address}/24]
      routes: [{{to: default, via: {host}}}]
"""
# What NVIDIA's playbook for two Sparks tells to write.
_CX7_NETPLAN = """\
network:
  version: 2
  ethernets:
    {ports[0]}:
      dhcp4: no
      addresses:
        - 192.168.100.{host}/24
    {ports[1]}:
      dhcp4: no
      addresses:
        - 192.168.101.{host}/24
"""
_CLASH_NETPLAN = """\
network:
  version: 2
  ethernets:
    {port}:
      addresses: [192.168.100.11/24]
"""
_FOREIGN_SERVER = """\
[Unit]
Description=Some other server, on the port that engines use

[Service]
ExecStart=/usr/bin/python3 -m http.server 8000 --directory /usr/share/doc

[Install]
WantedBy=multi-user.target
"""


def furnish(root: Path) -> None:
    """Turn a Debian root into that of a DGX Spark, but for what differs from Spark to Spark."""
    shutil.copytree(rootfs.DGX_OS, root, dirs_exist_ok=True)
    (root / "etc/sudoers.d/nvidia").chmod(0o440)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "etc/ssh/sshd_config.d/lab.conf").write_text(_SSHD)
    _inside(root, "useradd", "--create-home", "--shell", "/bin/bash", "--groups", "sudo", USER)
    ssh = root / f"home/{USER}/.ssh"
    ssh.mkdir(mode=0o700)
    shutil.copy(rootfs.keys() / "id_ed25519.pub", ssh / "authorized_keys")
    _inside(root, "chown", "--recursive", f"{USER}:{USER}", f"/home/{USER}/.ssh")
    # A machine may sit behind a proxy with an authority of its own; then so do its Sparks.
    for authority in rootfs.AUTHORITIES.glob("*.crt"):
        shutil.copy(authority, root / rootfs.AUTHORITIES.relative_to("/"))
    _inside(root, "update-ca-certificates")
    deb = shutil.copy(apt.toolkit_deb(), root)
    _inside(root, "dpkg", "--install", f"/{Path(deb).name}")
    Path(deb).unlink()
    _inside(root, "systemctl", "enable", "lab-cgroups.service")
    # Done here once, or each Spark's first boot would do it.
    _inside(root, "ldconfig")
    _inside(root, "journalctl", "--update-catalog")
    _inside(root, "/usr/lib/systemd/systemd-update-done")


def personalize(root: Path, name: str) -> None:
    """Write what differs from Spark to Spark: names, address and host key."""
    (root / "etc/hostname").write_text(f"{name}\n")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    identity = hashlib.md5(f"sparkwright {name}".encode(), usedforsecurity=False).hexdigest()
    (root / "etc/machine-id").write_text(f"{identity}\n")
    address, port = network.address(name), network.LAN_PORT
    lan = _LAN_NETPLAN.format(port=port, address=address, host=network.HOST)
    _write_netplan(root, "01-lan", lan)
    for suffix in ("", ".pub"):
        shutil.copy(
            rootfs.keys() / f"{name}{suffix}", root / f"etc/ssh/ssh_host_ed25519_key{suffix}"
        )
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")


def _no_driver(spark: Path) -> None:
    (spark / "root/usr/bin/nvidia-smi").unlink()


def _driver(spark: Path, version: str, cuda: str) -> None:
    program = spark / "root/usr/bin/nvidia-smi"
    text = program.read_text().replace("DRIVER=580.126.09", f"DRIVER={version}")
    program.write_text(text.replace("CUDA=13.0", f"CUDA={cuda}"))


def _no_toolkit(spark: Path) -> None:
    _inside(spark / "root", "dpkg", "--purge", apt.PACKAGE)
    file = spark / "root/etc/docker/daemon.json"
    settings = json.loads(file.read_text())
    del settings["runtimes"]
    file.write_text(json.dumps(settings, indent=4) + "\n")


def _docker_old(spark: Path) -> None:
    """Make client and daemon say 24; they stay what they are, package and API version included."""
    root = spark / "root"
    shown = _inside(root, "docker", "--version")
    version = shown.split()[2].rstrip(",").encode()
    for program in (root / "usr/bin/docker", root / "usr/sbin/dockerd"):
        program.write_bytes(program.read_bytes().replace(version, b"24" + version[2:]))


def _disk_nearly_full(spark: Path) -> None:
    """Make the small file system that the supervisor then mounts for /opt and /var/lib/docker."""
    disk = spark / "disk.img"
    with disk.open("wb") as file:
        file.truncate(SMALL_DISK)
    subprocess.run(["mkfs.ext4", "-q", str(disk)], check=True)


def _port_taken(spark: Path) -> None:
    unit = spark / "root/etc/systemd/system/other-server.service"
    unit.write_text(_FOREIGN_SERVER)
    _inside(spark / "root", "systemctl", "enable", unit.name)


def _sudo_password(spark: Path) -> None:
    (spark / "root/etc/sudoers.d/nvidia").unlink()
    _inside(spark / "root", "chpasswd", stdin=f"{USER}:{SUDO_PASSWORD}")


def _foreign_netplan(spark: Path) -> None:
    """Address the fabric port with the cable as NVIDIA's playbook does."""
    host = 9 + network.number(spark.name)
    text = _CX7_NETPLAN.format(ports=network.FABRIC_PORTS[0], host=host)
    _write_netplan(spark / "root", "40-cx7", text)


def _address_clash(spark: Path) -> None:
    """Give the LAN port an address that a fabric in 192.168.100.0/24 wants, too."""
    text = _CLASH_NETPLAN.format(port=network.LAN_PORT)
    _write_netplan(spark / "root", "50-second-lan", text)


# Each gets the Spark's folder, in which its root is mounted, before the first boot.
VARIANTS: dict[str, Callable[[Path], None]] = {
    "standard": lambda spark: None,
    "no-driver": _no_driver,
    "driver-570": lambda spark: _driver(spark, "570.124.06", "12.8"),
    "driver-580.95": lambda spark: _driver(spark, "580.95.05", "13.0"),
    "no-toolkit": _no_toolkit,
    "docker-old": _docker_old,
    "disk-nearly-full": _disk_nearly_full,
    "port-taken": _port_taken,
    "sudo-password": _sudo_password,
    "foreign-netplan": _foreign_netplan,
    "address-clash": _address_clash,
}


def check(variant: str) -> None:
    """Refuse an unknown variant.

    Raises:
        LabError: there is no such variant.
    """
    if variant not in VARIANTS:
        known = ", ".join(VARIANTS)
        raise LabError(f"there is no factory variant {variant}; there are: {known}")


def mount_root(lower: list[Path], folder: Path) -> Path:
    """Mount folder/root: the lower layers, topmost first, with all changes in folder/upper."""
    for name in ("root", "upper", "work"):
        (folder / name).mkdir(exist_ok=True)
    stack = ":".join(str(layer) for layer in lower)
    options = f"lowerdir={stack},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    root = folder / "root"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(root)], check=True)
    return root


def _write_netplan(root: Path, name: str, text: str) -> None:
    file = root / f"etc/netplan/{name}.yaml"
    file.write_text(text)
    file.chmod(0o600)


def _inside(root: Path, *command: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["chroot", str(root), *command], input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def main() -> None:
    """Fill a folder (second argument) with the factory's layer over a base (first)."""
    base, folder = map(Path, sys.argv[1:])
    os.umask(0o022)
    root = mount_root([base / "root"], folder)
    subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
    furnish(root)


if __name__ == "__main__":
    main()
