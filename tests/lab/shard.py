"""A lab beside other labs: python -m tests.lab.shard NAME -- COMMAND [ARGUMENT …]

The command has networks, mounts and processes of its own, so that the lab which it starts has its
bridges, its folders and the files that it writes into the tree to itself. Only the caches and
RESULTS are shared. However the command ends, its processes, mounts, bridges and rules end with it.
The way out, by which Sparks fetch packages, is slirp4netns: it needs no rule and no setting of the
machine, and so leaves none behind. One setting is raised and stays so until the machine boots: how
many inotify instances root may have.
"""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.lab import machine
from tests.lab.state import PROJECT, SHARD, LabError, wait_for

# What outlives the shard: reports of tests, and journals of Sparks.
RESULTS = PROJECT / "test-results"

_FOLDERS = Path("/var/lib/sparkwright-shards")
_TAP = "tap0"
_SUBNET = "10.212.0.0/24"
# Each system in a container takes some; the kernel's default of 128 is for all of root's together.
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INSTANCES = 1024
_AWAITED = {signal.SIGTERM, signal.SIGCHLD}


def run(name: str, command: Sequence[str]) -> int:
    if os.geteuid() != 0:
        raise LabError("a shard needs root, for namespaces and mounts; run the same with sudo")
    with _owned(name) as folder:
        if int(_INOTIFY.read_text()) < _INSTANCES:
            _INOTIFY.write_text(str(_INSTANCES))
        inside = [sys.executable, "-m", "tests.lab.shard", "--inside", str(folder), name, "--"]
        # Without this process the shard ends as well: each of them kills its child.
        bound = ["setpriv", "--pdeathsig", "KILL"]
        private = ["--net", "--mount", "--pid", "--mount-proc", "--propagation=private"]
        # Blocked in the shard as well, these wait until somebody asks for them: the kernel spares a
        # shard's first process others, and a handler may run only after the wait that it is to end.
        signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        shard = subprocess.Popen(
            [*bound, "unshare", *private, "--fork", "--kill-child", *inside, *command]
        )
        # Ctrl-C reaches the command by itself, which then ends the shard.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        out = _way_out(shard)
        try:
            while (status := shard.poll()) is None:
                if signal.sigwait(_AWAITED) == signal.SIGTERM:
                    _end(shard.pid)
        finally:
            shard.kill()
            out.kill()
            out.wait()
        return _exit_status(status)


@contextmanager
def _owned(name: str) -> Iterator[Path]:
    """Give the folder of a shard, empty; remove it in the end, and what a killed shard has left."""
    folder = _FOLDERS / name
    folder.mkdir(parents=True, exist_ok=True)
    RESULTS.mkdir(exist_ok=True)
    with Path(f"/run/lock/sparkwright-shard-{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"the shard {name} is in use; choose another name") from None
        try:
            _empty(folder, name)
            yield folder
        finally:
            _empty(folder, name)
            folder.rmdir()


def _empty(folder: Path, name: str) -> None:
    machine.remove_groups(name)
    shutil.rmtree(folder)
    folder.mkdir()


def _way_out(shard: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
    """Start what connects a shard's network to the machine's."""
    here = Path("/proc/self/ns/net").readlink()
    network = Path(f"/proc/{shard.pid}/ns/net")
    wait_for(lambda: shard.poll() is not None or network.readlink() != here, 30, "the shard")
    return subprocess.Popen(
        [
            *("setpriv", "--pdeathsig", "KILL"),
            *("slirp4netns", "--configure", "--disable-host-loopback", f"--cidr={_SUBNET}"),
            *(str(shard.pid), _TAP),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _end(unshare: int) -> None:
    """Ask a shard's first process, the only child of `unshare`, to end the command."""
    # It may have ended: a second signal must not end what clears up.
    with suppress(FileNotFoundError, ProcessLookupError):
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGTERM)


def _inside(folder: Path, command: Sequence[str]) -> int:
    """Be the first process of a shard: furnish it, run the command, reap what it leaves behind."""
    _mount_system(folder)
    _private(Path("/run"), folder)
    _private(PROJECT, folder, shared=RESULTS)
    # The process is still where the tree was.
    os.chdir(PROJECT)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    routes = ["ip", "route", "show", "default"]
    wait_for(lambda: bool(subprocess.check_output(routes)), 30, "the way out")
    process = subprocess.Popen(
        command, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while (status := _reaped(process.pid)) is None:
        if signal.sigwait(_AWAITED) == signal.SIGTERM:
            os.kill(process.pid, signal.SIGTERM)
    return _exit_status(status)


def _reaped(awaited: int) -> int | None:
    """Reap all that has ended; return the status of one process, None while it runs."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == awaited:
            return os.waitstatus_to_exitcode(status)
        if not pid:
            return None


def _exit_status(status: int) -> int:
    """Return what a shell makes of a status that is negative where a signal has ended a process."""
    return status if status >= 0 else 128 - status


def _mount_system(folder: Path) -> None:
    """Mount /sys anew, as it shows the network of who mounted it, with the control groups."""
    system = folder / "sys"
    system.mkdir()
    _mount("-t", "sysfs", "sysfs", system)
    _mount("--rbind", "/sys/fs/cgroup", system / "fs/cgroup")
    _mount("--rbind", system, "/sys")


def _private(path: Path, folder: Path, shared: Path | None = None) -> None:
    """Have what is written below a path stay in the shard, but for one folder."""
    # By the whole path: a tree may be named as a folder of the system, such as "run".
    layers = folder / "-".join(path.parts[1:])
    for name in ("upper", "work", "shared"):
        (layers / name).mkdir(parents=True)
    if shared:
        _mount("--bind", shared, layers / "shared")
    options = f"lowerdir={path},upperdir={layers / 'upper'},workdir={layers / 'work'}"
    _mount("-t", "overlay", "overlay", "-o", options, path)
    if shared:
        _mount("--bind", layers / "shared", shared)


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def enter(name: str, module: str, *words: str) -> None:
    """Have a program go on in a shard, if it is in none: so it touches no lab but its own."""
    if not SHARD:
        shard = ["tests.lab.shard", name, "--", sys.executable, "-m", module, *words]
        os.execv(sys.executable, [sys.executable, "-m", *shard])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.shard", description=__doc__)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args(argv)
    if options.inside:
        return _inside(options.inside, options.command)
    if SHARD:
        parser.error(f"this is the shard {SHARD} already")
    try:
        os.environ["SPARKWRIGHT_SHARD"] = options.name
        return run(options.name, options.command)
    except LabError as problem:
        print(f"shard: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
