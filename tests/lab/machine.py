"""One virtual Spark as a machine: its power switch, and the supervisor that boots it.

`python -m tests.lab.machine NAME` is the supervisor. It lives in a mount namespace of its own, so
that everything which it mounts is gone with it, and boots the Spark again whenever it reboots.
"""

import argparse
import os
import shlex
import shutil
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.lab import factory, network, rootfs, state, variants
from tests.lab.state import SHARD, STORAGE, Process, wait_for

# systemd-nspawn --keep-unit ends with this status when the system inside asked for a reboot.
_REBOOTED = 133
_CGROUPS = Path("/sys/fs/cgroup")
_LEGACY = (_CGROUPS / "unified").is_dir()
# The cgroup v2 tree, which is the only one that can end all of a group's processes at once.
_TREE = _CGROUPS / "unified" if _LEGACY else _CGROUPS


def power_on(name: str) -> Process:
    """Start the supervisor, which boots the Spark; for callers that hold the lab's lock."""
    power_off(name, None)
    private = ["unshare", "--mount", "--propagation", "private"]
    return state.start(name, [*private, *state.module("machine", name)])


def power_off(name: str, supervisor: Process | None) -> None:
    """Kill all of a Spark's processes at once; for callers that hold the lab's lock."""
    if supervisor:
        supervisor.kill()
    _end(name)
    network.unplug(name)


def forget(name: str) -> None:
    """Delete everything that a Spark, powered off, has ever written."""
    # Its mounts were its supervisor's; this is for those of a person who looked inside.
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        target = line.split()[1]
        if target.startswith(f"{STORAGE / name}/"):
            subprocess.run(["umount", target], check=True)
    if (STORAGE / name).exists():
        shutil.rmtree(STORAGE / name)


def limit(name: str, memory: int | None, processes: int | None) -> None:
    """Let a Spark have so much until its next boot; None: as much as the machine has."""
    files = {
        "memory.limit_in_bytes": "-1" if memory is None else str(memory),
        "memory.max": "max" if memory is None else str(memory),
        "pids.max": "max" if processes is None else str(processes),
    }
    for tree in _trees():
        for path in (tree / _group(name) / file for file in files):
            if path.exists():
                path.write_text(files[path.name])


def refused_memory(name: str) -> int:
    """Return how often a Spark has come to its limit of memory."""
    for path in (tree / _group(name) / "memory.failcnt" for tree in _trees()):
        if path.exists():
            return int(path.read_text())
    events = (_TREE / _group(name) / "memory.events").read_text().split()
    return int(events[events.index("max") + 1])


def remove_groups(shard: str = SHARD) -> None:
    for tree in _trees():
        _remove_group(tree / _group("", shard))


def supervise(name: str) -> None:
    """Boot a Spark, again after each reboot, until it is powered off."""
    folder = STORAGE / name
    folder.mkdir(parents=True, exist_ok=True)
    variant = state.require().sparks[name].factory
    root = factory.mount_root(rootfs.layers(variant), folder)
    # nspawn leaves files here when it is killed.
    runtime = Path("/run/systemd/nspawn")
    runtime.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(runtime)], check=True)
    delivered = folder / "delivered"
    if not delivered.exists():
        factory.personalize(root, name)
        variants.VARIANTS[variant](folder)
        delivered.touch()
    binds = _disks(folder)
    status = _REBOOTED
    while status == _REBOOTED:
        with state.locked():
            network.plug(name, state.require())
        status = _boot(name, binds)
        # nspawn may have been killed alone: its Spark would live on. And systemd cannot start
        # units in control groups that were once killed.
        _end(name)
    with state.locked():
        network.unplug(name)


def _disks(folder: Path) -> dict[Path, str]:
    """Return what to bind where. No overlay of an image can lie on another: they get folders."""
    disk = folder
    binds = {"docker": "/var/lib/docker", "containerd": "/var/lib/containerd"}
    if (folder / "disk.img").exists():
        disk = folder / "disk"
        disk.mkdir(exist_ok=True)
        subprocess.run(["mount", "-o", "loop", f"{folder}/disk.img", str(disk)], check=True)
        binds["opt"] = "/opt"
    for name in binds:
        (disk / name).mkdir(exist_ok=True)
    return {disk / name: target for name, target in binds.items()}


def _boot(name: str, binds: dict[Path, str]) -> int:
    """Run a Spark from its boot to its end; return nspawn's exit status."""
    for tree in _trees():
        _make_group(tree, _group(name))
    environment = os.environ | {
        "SYSTEMD_NSPAWN_USE_CGNS": "1",
        # A writable /sys, or udevd does not run, and netplan apply fails.
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "1",
    }
    net = network.namespace(name)
    command = [
        # nspawn mounts the /sys of the network in which it is started, whatever it is told.
        *("nsenter", f"--net={net}"),
        *("systemd-nspawn", "--quiet", "--boot", "--directory", str(STORAGE / name / "root")),
        *("--machine", name, "--register=no", "--keep-unit", "--console=pipe"),
        *("--capability=all", "--system-call-filter=add_key keyctl bpf @keyring @mount"),
        *("--resolv-conf=off", "--bind=/dev/fuse"),
        f"--network-namespace-path={net}",
        *(f"--bind={source}:{target}" for source, target in binds.items()),
    ]
    if _LEGACY:
        # systemd 257 refuses cgroup v1 unless it is told both.
        force = "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"
        command.append(f"--setenv={force}")
        cmdline = f"{force} systemd.unified_cgroup_hierarchy=0"
        command.append(f"--setenv=SYSTEMD_PROC_CMDLINE={cmdline}")
    groups = (tree / _group(name) / "cgroup.procs" for tree in _trees())
    enter = [f"echo $$ > {file}" for file in groups]
    script = "\n".join([*enter, f"exec {shlex.join(command)}"])
    return subprocess.run(
        ["sh", "-ec", script], env=environment, stdin=subprocess.DEVNULL, check=False
    ).returncode


def _end(name: str) -> None:
    """Kill what is left of a Spark's processes, and remove its control groups."""
    group = _TREE / _group(name)
    if group.exists():
        (group / "cgroup.kill").write_text("1")
        events = group / "cgroup.events"
        wait_for(lambda: "populated 0" in events.read_text(), 60, f"the processes of {name} to end")
    for tree in _trees():
        _remove_group(tree / _group(name))


def _group(name: str, shard: str = SHARD) -> str:
    lab = f"sparkwright-lab-{shard}" if shard else "sparkwright-lab"
    return f"{lab}/{name}".rstrip("/")


def _trees() -> list[Path]:
    """Return the root of each cgroup hierarchy."""
    return [path for path in _CGROUPS.iterdir() if path.is_dir()] if _LEGACY else [_CGROUPS]


def _make_group(tree: Path, group: str) -> None:
    folder = tree
    for part in Path(group).parts:
        parent, folder = folder, folder / part
        folder.mkdir(exist_ok=True)
        if not _LEGACY:
            controllers = (parent / "cgroup.controllers").read_text().split()
            offer = " ".join(f"+{controller}" for controller in controllers)
            (parent / "cgroup.subtree_control").write_text(offer)
        elif (folder / "cpuset.cpus").exists():
            # A new v1 cpuset is empty: no process could enter it.
            for file in ("cpuset.cpus", "cpuset.mems"):
                (folder / file).write_text((parent / file).read_text())


def _remove_group(folder: Path) -> None:
    """Remove a control group and all below it; their processes have ended."""
    if folder.exists():
        groups = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
        for path in sorted(groups, key=lambda path: len(path.parts), reverse=True):
            wait_for(partial(_rmdir, path), 5, f"the control group {path} to be idle")


def _rmdir(path: Path) -> bool:
    with suppress(OSError):
        path.rmdir()
    return not path.exists()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.lab.machine", description=__doc__)
    parser.add_argument("name", help="of the Spark")
    supervise(parser.parse_args().name)
