"""The factory: what makes a Debian root a DGX Spark on its first day.

Run as a program it fills a layer, for tests.lab.rootfs.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.lab import apt, archive, network, rootfs

USER = "nvidia"

# The lab asks a Spark that boots whether port 22 answers, more often than sshd likes.
_SSHD = "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPerSourcePenalties no\n"
# What makes no unit of a Spark's, and costs as much as the others whenever systemd reads its units:
# once for each of them that a deploy enables.
_IDLE_GENERATORS = (
    *("debug", "getty", "gpt-auto", "hibernate-resume", "rc-local", "run", "ssh"),
    *("system-update", "tpm2"),
)
_LAN_NETPLAN = """\
network:
  version: 2
  renderer: networkd
  ethernets:
    {port}:
      addresses: [{address}/24]
      routes: [{{to: default, via: {host}}}]
"""


def furnish(root: Path) -> None:
    """Turn a Debian root into that of a DGX Spark, but for what differs from Spark to Spark."""
    shutil.copytree(rootfs.DGX_OS, root, dirs_exist_ok=True)
    (root / "etc/sudoers.d/nvidia").chmod(0o440)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "etc/ssh/sshd_config.d/lab.conf").write_text(_SSHD)
    inside(root, "useradd", "--create-home", "--shell", "/bin/bash", "--groups", "sudo", USER)
    ssh = root / f"home/{USER}/.ssh"
    ssh.mkdir(mode=0o700)
    shutil.copy(rootfs.keys() / "id_ed25519.pub", ssh / "authorized_keys")
    inside(root, "chown", "--recursive", f"{USER}:{USER}", f"/home/{USER}/.ssh")
    # A machine may sit behind a proxy with an authority of its own; then so do its Sparks.
    for authority in rootfs.AUTHORITIES.glob("*.crt"):
        shutil.copy(authority, root / rootfs.AUTHORITIES.relative_to("/"))
    inside(root, "update-ca-certificates")
    deb = shutil.copy(apt.toolkit_deb(), root)
    inside(root, "dpkg", "--install", f"/{Path(deb).name}")
    Path(deb).unlink()
    inside(root, "systemctl", "enable", "lab-cgroups.service", "lab-kernel.service")
    generators = root / "etc/systemd/system-generators"
    generators.mkdir()
    for name in _IDLE_GENERATORS:
        (generators / f"systemd-{name}-generator").symlink_to("/dev/null")
    cuda(root, 0)
    # Done here once, or each Spark's first boot would do it.
    inside(root, "ldconfig")
    inside(root, "journalctl", "--update-catalog")
    inside(root, "/usr/lib/systemd/systemd-update-done")


def install(root: Path, packages: Sequence[str], *, download: bool = False) -> None:
    """Install packages of Debian's into a furnished root, or only have apt fetch them."""
    resolver = root / "etc/resolv.conf"
    shutil.copy("/etc/resolv.conf", resolver)
    inside(root, "apt-get", "update")
    options: tuple[str, ...] = ("--yes", "--quiet", "--no-install-recommends")
    if download:
        options += ("--download-only",)
    inside(root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", *options, *packages)
    if not download:
        inside(root, "apt-get", "clean")
    for file in (root / "var/lib/apt/lists").glob("*_*"):
        file.unlink()
    resolver.unlink()


def personalize(root: Path, name: str) -> None:
    """Write what the lab and each Spark have of their own: names, address, keys, apt's source."""
    (root / "etc/hostname").write_text(f"{name}\n")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    identity = hashlib.md5(f"sparkwright {name}".encode(), usedforsecurity=False).hexdigest()
    (root / "etc/machine-id").write_text(f"{identity}\n")
    address, port = network.address(name), network.LAN_PORT
    lan = _LAN_NETPLAN.format(port=port, address=address, host=network.HOST)
    write_netplan(root, "01-lan", lan)
    for suffix in ("", ".pub"):
        shutil.copy(
            rootfs.keys() / f"{name}{suffix}", root / f"etc/ssh/ssh_host_ed25519_key{suffix}"
        )
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    key = "/usr/share/keyrings/lab-archive.asc"
    shutil.copy(archive.ensure() / archive.KEY, f"{root}{key}")
    source = f"deb [signed-by={key}] http://{network.HOST}:{archive.PORT}/ ./\n"
    (root / "etc/apt/sources.list").write_text(source)


def cuda(root: Path, status: int) -> None:
    """Put a stand-in for CUDA's library there: its cuInit returns this status, and no more."""
    move = f"mov w0, #{status}" if os.uname().machine == "aarch64" else f"mov ${status}, %eax"
    source = f".globl cuInit\n.type cuInit, %function\ncuInit:\n{move}\nret\n"
    source += '.section .note.GNU-stack, "", %progbits\n'
    (folder,) = (root / "usr/lib").glob("*-linux-gnu")
    with tempfile.TemporaryDirectory() as build:
        made = f"{build}/cuda.o"
        subprocess.run(["as", "-o", made, "-"], input=source, text=True, check=True)
        library = ["-soname", "libcuda.so.1", "-o", str(folder / "libcuda.so.1")]
        subprocess.run(["ld", "-shared", *library, made], check=True)


def mount_root(lower: list[Path], folder: Path) -> Path:
    """Mount folder/root: the lower layers, topmost first, with all changes in folder/upper."""
    for name in ("root", "upper", "work"):
        (folder / name).mkdir(exist_ok=True)
    stack = ":".join(str(layer) for layer in lower)
    options = f"lowerdir={stack},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    root = folder / "root"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(root)], check=True)
    return root


def write_netplan(root: Path, name: str, text: str) -> None:
    """Write a file of netplan's."""
    file = root / f"etc/netplan/{name}.yaml"
    file.write_text(text)
    file.chmod(0o600)


def inside(root: Path, *command: str, stdin: str = "") -> str:
    """Run a command in a root and return what it prints; its failure ends the program."""
    done = subprocess.run(
        ["chroot", str(root), *command], input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def main() -> None:
    """Fill a layer over others: with packages, or with what makes a DGX Spark."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.factory", description=main.__doc__)
    parser.add_argument("stack", help="the folders below, topmost first, with colons between them")
    parser.add_argument("folder", type=Path, help="gets the layer, in `upper`")
    parser.add_argument("--download", action="store_true", help="only fetch the packages")
    parser.add_argument("packages", nargs="*", help="of Debian's; none: a DGX Spark")
    asked = parser.parse_args()
    os.umask(0o022)
    root = mount_root(list(map(Path, asked.stack.split(":"))), asked.folder)
    subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
    if asked.packages:
        install(root, asked.packages, download=asked.download)
    else:
        furnish(root)


if __name__ == "__main__":
    main()
