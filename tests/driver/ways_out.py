"""What the kernel lets an engine do, the ways out that code in it may try, and what tries them.

Each way is Python, which the program runs in the container; what raises an OSError is closed.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.driver.sparks import eventually
from tests.lab.spark import Handle

# A name -> what is tried. HOST, OTHER and the like are given by the test.
CONNECT: Mapping[str, str] = {
    "sshd on loopback": "tcp('127.0.0.1', 22)",
    "sshd on IPv6": "tcp('::1', 22)",
    "sshd on the LAN": "tcp(LAN, 22)",
    "node exporter": "tcp('127.0.0.1', 9100)",
    "own door on loopback": "tcp('127.0.0.1', 8000)",
    "own door on the LAN": "tcp(LAN, 8000)",
    "door of the other seat": "tcp('127.0.0.1', 8001)",
    "door of the other seat on the LAN": "tcp(LAN, 8001)",
    "another program on loopback": "tcp('127.0.0.1', 11000)",
    "the network's next host": "tcp(GATE, 5000)",
    "DNS of the LAN": "udp(GATE, 53)",
    "DNS of the resolver": "udp('127.0.0.53', 53)",
    "metadata of a cloud": "tcp('169.254.169.254', 80)",
    "the internet": "tcp('1.1.1.1', 443)",
    "the internet by IPv6": "tcp('2606:4700::1111', 443)",
    "an abstract socket of the host": "unix('\\0sparkwright-test')",
    "Docker": "unix('/run/docker.sock')",
    "Docker by its old path": "unix('/var/run/docker.sock')",
    "containerd": "unix('/run/containerd/containerd.sock')",
    "systemd": "unix('/run/systemd/private')",
    "D-Bus": "unix('/run/dbus/system_bus_socket')",
    "socket of the other engine": "unix(f'/opt/qwen36/sockets/engines/{OTHER}/api.sock')",
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "a packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
}
RIGHTS: Mapping[str, str] = {
    "the user root": "os.setuid(0)",
    "the group root": "os.setgid(0)",
    "groups of others": "os.setgroups([0])",
    "a mount": "called(libc.mount(b'none', b'/mnt', b'tmpfs', 0, None))",
    "a user namespace": "called(libc.unshare(0x10000000))",
    "a mount namespace": "called(libc.unshare(0x20000))",
    "a network namespace": "called(libc.unshare(0x40000000))",
    "another root": "os.chroot('/tmp')",
    "a device": "os.mknod('/tmp/mem', 0o20666, os.makedev(1, 1))",
    "bpf": "called(libc.syscall(SYSCALLS['bpf'], 0, 0, 0))",
    "a module of the kernel": "called(libc.syscall(SYSCALLS['init_module'], 0, 0, 0))",
    "another clock": "called(libc.settimeofday(ctypes.create_string_buffer(16), None))",
    "a capability": "absent(re.search('Cap(Prm|Eff|Bnd|Amb):.*[1-9a-f]', STATUS))",
    "privileges by a program": "absent(re.search('NoNewPrivs:.*0', STATUS))",
    "uid 0": "absent(os.getuid() == 0 or os.getgid() == 0 or 0 in os.getgroups())",
    "processes of others": "absent([pid for pid in pids() if not is_own(pid)])",
}
FILES: Mapping[str, str] = {
    "weights": "write('/models/' + os.listdir('/models')[0] + '/config.json')",
    "a new file beside the weights": "write('/models/' + os.listdir('/models')[0] + '/new')",
    "programs of the image": "write('/usr/local/bin/vllm')",
    "accounts of the image": "write('/etc/passwd')",
    "kernel parameters": "write('/proc/sys/kernel/core_pattern')",
    "sysrq": "write('/proc/sysrq-trigger')",
    "control groups": "write('/sys/fs/cgroup/cgroup.procs')",
    "memory of the kernel": "open('/proc/kcore', 'rb').read(1)",
    "the kernel's log": "open('/dev/kmsg').read(1)",
    "folder of everything": "os.listdir('/opt/qwen36')",
    "secrets": "os.listdir('/opt/qwen36/secrets')",
    "sockets of the other seat": "os.listdir('/opt/qwen36/sockets/seats')",
    "caches of others": "os.listdir('/opt/qwen36/cache')",
}
CLOSED: Mapping[str, str] = {**CONNECT, **RIGHTS, **FILES}
# Those of a pair's engine beside them, which is in the host's network: OWN and PEER are addresses
# of the fabric.
PAIRED: Mapping[str, str] = {
    "sshd on its own fabric address": "tcp(OWN, 22)",
    "sshd of the other Spark": "tcp(PEER, 22)",
    "the door on its own fabric address": "tcp(OWN, 8000)",
    "the door of the other Spark": "tcp(PEER, 8000)",
    "link of the supervisors": "tcp(PEER, 29500)",
    "share of the weights": "tcp(PEER, 29502)",
    "metrics of the worker": "tcp(PEER, 29503)",
    "UDP over the fabric": "udp(PEER, 53)",
    "the door's port on all addresses": "bound('0.0.0.0', 8000)",
    "the door's port on loopback": "bound('127.0.0.1', 8000)",
    "the door's port on the LAN": "bound(LAN, 8000)",
    "the gateway's port": "bound('0.0.0.0', 4000)",
    "any known port": "bound('0.0.0.0', 12345)",
    "any known port by IPv6": "bound('::', 12345)",
    "the share's port": "bound(OWN, 29502)",
    "a port of UDP": "bound('0.0.0.0', 5353, socket.SOCK_DGRAM)",
}
# What cannot be closed in the host's network (docs/security.md), and what its ranks need.
PAIR_OPEN: Mapping[str, str] = {
    "an abstract socket of the host": CONNECT["an abstract socket of the host"],
    "a port that the kernel chooses": "bound(OWN, 0)",
    "the rendezvous": "tcp(MASTER, 29501)",
}
# What an engine needs, by which the rest is known to have been tried.
OPEN: Mapping[str, str] = {
    "its API": "unix('/run/vllm/api.sock')",
    "its cache": "write(os.path.expanduser('~/new'))",
    "its /tmp": "write('/tmp/new')",
    "its shared memory": "write('/dev/shm/new')",
    "its name": "__import__('getpass').getuser()",
}
_PROGRAM = """
import ctypes, json, os, platform, re, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
STATUS = open('/proc/self/status').read()
SYSCALLS = {'x86_64': {'bpf': 321, 'init_module': 175}, 'aarch64': {'bpf': 280, 'init_module': 105}}
SYSCALLS = SYSCALLS[platform.machine()]

def tcp(host, port):
    socket.create_connection((host, port), 2).close()

def udp(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(2)
        asking.connect((host, port))
        asking.send(bytes.fromhex('00010100000100000000000007') + b'example\\0\\0\\1\\0\\1')
        asking.recv(512)

def bound(host, port, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, kind) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind((host, port))

def unix(path):
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(2)
        asking.connect(path)

def write(path):
    open(path, 'a').close()

def called(result):
    if result:
        raise OSError(ctypes.get_errno(), 'call')

def absent(found):
    if not found:
        raise OSError('none')

def pids():
    return [int(name) for name in os.listdir('/proc') if name.isdecimal()]

def is_own(pid):
    try:
        return os.stat(f'/proc/{pid}').st_uid == os.getuid()
    except FileNotFoundError:
        return True

said = json.loads(sys.argv[1])
globals().update(said['given'])
found = {}
for name, way in said['ways'].items():
    # What one way brings must help no other.
    if (child := os.fork()) == 0:
        try:
            exec(way)
        except OSError:
            os._exit(1)
        except BaseException as error:
            print(name, repr(error), file=sys.stderr)
            os._exit(2)
        os._exit(0)
    found[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(found))
"""


def tried(spark: Handle, release: str, ways: Mapping[str, str], **given: str) -> dict[str, bool]:
    told = json.dumps({"ways": dict(ways), "given": given})
    command = shlex.join(["docker", "exec", f"vllm-{release}", "python3", "-c", _PROGRAM, told])
    said = spark.run(f"sudo {command}")
    found = json.loads(said.stdout.splitlines()[-1])
    assert set(found.values()) <= {0, 1}, said
    return {name: status == 0 for name, status in found.items()}


@contextmanager
def abstract_listener(spark: Handle) -> Iterator[None]:
    code = "import socket, time; s = socket.socket(socket.AF_UNIX); "
    code += "s.bind(chr(0) + 'sparkwright-test'); s.listen(); time.sleep(999)"
    unit = "systemd-run --collect --unit=abstract-test python3 -c"
    spark.run(f"sudo {unit} {shlex.quote(code)}")
    eventually(lambda: "sparkwright-test" in spark.run("cat /proc/net/unix").stdout, "it to listen")
    try:
        yield
    finally:
        spark.run("sudo systemctl stop abstract-test")


# A line for each process of the engine's container: its capabilities, NoNewPrivs, seccomp, whether
# its root is mounted read-only, and how many threads its control group may have. Control groups of
# version 1 have a tree for each controller.
_CONFINED = """
id=$(docker ps --quiet --filter label=sparkwright.release)
for pid in $(docker top "$id" -eo pid | tail -n +2); do
  group=$(sed -n 's/^[0-9]*:pids://p' "/proc/$pid/cgroup")
  [ -n "$group" ] && group=/sys/fs/cgroup/pids$group ||
    group=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$pid/cgroup")
  root=$(awk '$5 == "/" {split($6, option, ","); print option[1]}' "/proc/$pid/mountinfo")
  sed -n 's/^\\(Cap[A-Z][a-z]*\\|NoNewPrivs\\|Seccomp\\):\\t//p' "/proc/$pid/status" | tr '\\n' ' '
  echo "$root $(cat "$group/pids.max")"
done"""


@dataclass(frozen=True)
class Confinement:
    """What a process may do; `capabilities` has all that it has, may get, or passes on, as bits.

    Its system calls are `filtered`; its container may have any number of threads if None.
    """

    capabilities: int
    no_new_privileges: bool
    filtered: bool
    read_only: bool
    threads: int | None


# What a process of vLLM may do.
CONFINED = Confinement(
    capabilities=0, no_new_privileges=True, filtered=True, read_only=True, threads=8192
)


def confinement(spark: Handle) -> set[Confinement]:
    found = set()
    for line in spark.run("sudo sh -s", stdin=_CONFINED).stdout.splitlines():
        *sets, ambient, fresh, seccomp, root, threads = line.split()
        bits = 0
        for each in (*sets, ambient):
            bits |= int(each, 16)
        most = None if threads == "max" else int(threads)
        found.add(Confinement(bits, fresh == "1", seccomp == "2", root == "ro", most))
    return found
