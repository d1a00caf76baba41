"""What listens on a Spark, and whatever it says of itself."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.state import sockets
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.insight.doctor.listeners import (
    DISGUISED,
    LISTENING,
    Listening,
    Process,
    Socket,
    astray,
    judged,
    others,
    unguarded,
)
from sparkwright.insight.doctor.report import probed
from sparkwright.plan.release.command import environment
from sparkwright.plan.release.container import ALONE, PAIR, guard_files
from sparkwright.plan.release.programs import state_program
from sparkwright.run.spark import Declared
from sparkwright.run.state import RUN
from tests.programs import ended

ENGINE = "f2a2905980e2"
GUARDED, LOOSE = f"/{ALONE}/docker-{ENGINE}.scope", f"/system.slice/docker-{ENGINE}.scope"
PAIRED = f"/{PAIR}/docker-{ENGINE}.scope"
SYSTEM = "/system.slice"
MAY = Declared(doors=(8000, 8002), fabric=("192.168.100.11", "192.168.101.11"))


def one(program: str, address: str, port: int, group: str, protocol: str = "tcp") -> Listening:
    """Return what a Spark with one socket and one engine has."""
    process = Process(pid=7, command=program, cgroup=group)
    holders = (process,) if program else ()
    socket = Socket(kind=protocol, address=address, port=port, processes=holders)
    return Listening(sockets=(socket,), engines=(ENGINE,))


def kind(found: Listening) -> str:
    """Return how the only socket is judged."""
    ((_, own),) = judged(found, MAY)
    return own


ON_THE_LIST = [
    one("haproxy", "*", 8000, f"{SYSTEM}/door.service"),
    one("haproxy", "*", 8002, f"{SYSTEM}/system-door.slice/door@embed.service"),
    one("vllm", "127.0.0.1", 18299, GUARDED),
    one("VLLM::EngineCor", "*", 36003, GUARDED),
    one("VLLM::Worker_TP", "192.168.100.11", 29501, PAIRED),
    one("prometheus-node", "127.0.0.1", 9100, f"{SYSTEM}/prometheus-node-exporter.service"),
    one("python3", "192.168.100.11", 29500, f"{SYSTEM}/system-vllm.slice/vllm@a-1.service"),
    one("systemd", "192.168.100.11", 29502, "/init.scope"),
    one("python3", "192.168.100.11", 29504, f"{SYSTEM}/image-copy.service"),
    one("python3", "192.168.101.11", 29503, f"{SYSTEM}/fabric-metrics@1.service"),
    one("haproxy", "*", 4000, f"{SYSTEM}/gateway-door.service"),
    one("python3", "192.168.100.11", 29505, f"{SYSTEM}/flight-recorder.service", "udp"),
]
ASTRAY = [
    # vLLM 0.18 to 0.20 without a guard: any host fills the store of its ranks.
    one("VLLM::EngineCor", "*", 36003, LOOSE),
    one("vllm", "0.0.0.0", 18299, LOOSE),
    one("vllm", "10.0.0.5", 5557, LOOSE),
    # A process chooses its own name, and not its control group.
    one("sshd", "*", 22222, LOOSE),
    one("systemd-resolve", "*", 53, LOOSE, "udp"),
    one("haproxy", "*", 8001, f"{SYSTEM}/door.service"),
    one("haproxy", "*", 8001, f"{SYSTEM}/system-door.slice/door@embed.service"),
    one("haproxy", "*", 8000, f"{SYSTEM}/door.service", "udp"),
    one("prometheus-node", "*", 9100, f"{SYSTEM}/prometheus-node-exporter.service"),
    one("python3", "*", 29500, f"{SYSTEM}/system-vllm.slice/vllm@a-1.service"),
    one("systemd", "*", 29502, "/init.scope"),
    one("systemd", "192.168.1.20", 29502, "/init.scope"),
    one("systemd", "10.0.0.5", 29503, "/init.scope"),
    one("python3", "*", 6006, f"{SYSTEM}/system-weights.slice/weights@tiny@1.service"),
    one("python3", "*", 6006, f"{SYSTEM}/benchmark.service"),
    one("python3", "*", 29504, f"{SYSTEM}/image-copy.service"),
    one("python3", "*", 29505, f"{SYSTEM}/flight-recorder.service", "udp"),
    one("python3", "192.168.100.11", 6006, f"{SYSTEM}/flight-recorder.service", "udp"),
    one(DISGUISED, "*", 6006, f"{SYSTEM}/mine.service"),
]


@pytest.mark.parametrize("found", ON_THE_LIST)
def test_what_is_on_the_list(found: Listening) -> None:
    assert kind(found) == "ours"
    assert astray(found, MAY) == others(found, MAY) == unguarded(found) == []


@pytest.mark.parametrize("found", ASTRAY)
def test_what_of_ours_is_not(found: Listening) -> None:
    assert kind(found) == "astray"
    assert astray(found, MAY) == [str(found.sockets[0])]


@pytest.mark.parametrize(
    ("program", "address", "port"),
    [
        *(("sshd", "*", 22), ("systemd-resolve", "*", 53), ("systemd-network", "*", 68)),
        *(("systemd-resolve", "127.0.0.53%lo", 53), ("avahi-daemon", "*", 5353)),
        ("systemd-network", "*", 546),
    ],
)
def test_what_the_system_listens_with(program: str, address: str, port: int) -> None:
    found = one(program, address, port, f"{SYSTEM}/{program}.service")
    assert kind(found) == "system"
    assert others(found, MAY) == []


def test_a_share_that_is_not_on_the_fabric() -> None:
    lends = one("systemd", "192.168.1.20", 29502, "/init.scope")
    assert astray(lends, Declared(doors=(8000,))) == ["systemd on 192.168.1.20 port 29502/tcp"]


def test_an_owners_own_service_is_named_and_no_fault() -> None:
    jupyter = one("jupyter-lab", "*", 8888, "/user.slice/user-1000.slice/session-3.scope")
    assert (kind(jupyter), astray(jupyter, MAY)) == ("other", [])
    assert others(jupyter, MAY) == ["jupyter-lab on * port 8888/tcp"]
    assert others(one("", "*", 2049, ""), MAY) == ["the kernel on * port 2049/tcp"]
    assert others(one("ollama", "127.0.0.1", 11434, f"{SYSTEM}/ollama.service"), MAY) == []
    # A port that is not the program's own is worth a word.
    for program in ("dnsmasq", "systemd-resolve", "systemd-network"):
        assert others(one(program, "*", 8053, f"{SYSTEM}/{program}.service"), MAY)


LOOPBACK = ["127.0.1.1", "::1", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("address", [*LOOPBACK, "*", "10.0.0.5", "fe80::1", "::ffff:10.0.0.5", "x"])
def test_what_is_loopback(address: str) -> None:
    assert kind(one("vllm", address, 18299, LOOSE)) == ("ours" if address in LOOPBACK else "astray")


def listening(*sockets: dict[str, Any]) -> Listening:
    """Return what a Spark with one engine has, by what a program there says."""
    known = {"sockets": sockets, "engines": [ENGINE]}
    return LISTENING.value(json.dumps({"known": known}))


def socket(port: int, **process: Any) -> dict[str, Any]:
    return {"kind": "tcp", "address": "0.0.0.0", "port": port, "processes": [process]}


def test_what_the_doctor_and_drift_say() -> None:
    found = listening(
        socket(36003, pid=7, command="vllm", cgroup=LOOSE),
        socket(8888, pid=8, command="jupyter-lab", cgroup="/user.slice"),
    )
    assert astray(found, MAY) == ["vllm on * port 36003/tcp"]
    assert unguarded(found) == [LOOSE]
    assert others(found, MAY) == ["jupyter-lab on * port 8888/tcp"]
    said = probed("listener", astray(found, MAY)[0])
    assert (said.name, said.evidence) == ("listener", "vllm on * port 36003/tcp")


# 15 characters, as the kernel keeps them.
NAMES = st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=15)


@given(NAMES)
def test_no_name_of_a_process_hides_an_engine(name: str) -> None:
    """As ss prints it: the name as it is, between quotes."""
    line = f'tcp LISTEN 0 4096 0.0.0.0:36003 0.0.0.0:* users:(("{name}",pid=77,fd=4))'
    held = {1: {"command": "systemd", "cgroup": "/init.scope"}}
    held |= {77: {"command": name.strip(), "cgroup": LOOSE}}
    nobody = {"command": "", "cgroup": ""}
    with pytest.MonkeyPatch.context() as patch:
        # The very function, without what it remembers.
        patch.setattr(sockets, "lines", lambda *_: line.splitlines())
        patch.setattr(sockets, "process", lambda pid: {"pid": pid, **held.get(pid, nobody)})
        found = listening(*sockets.listening.__wrapped__())  # type: ignore[attr-defined]
    assert "astray" in [own for _, own in judged(found, MAY)]


_LISTENER = """
import ctypes, socket, sys
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("name", "shown"),
    [("jupyter lab", "jupyter lab"), ('x",pid=1,fd=3)', DISGUISED), ("a\n@@engines\nb", DISGUISED)],
)
def test_a_real_process_by_any_name(name: str, shown: str) -> None:
    """Runs the very program, with the real ss."""
    line, pipe = [sys.executable, "-c", _LISTENER, name], subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        program = state_program(frozenset({LISTENING.model.part}))
        said = ended(["sh", "-c", RUN], input=f"{program}\n[{LISTENING.key}]\n").stdout
        process.communicate("")
    found = LISTENING.value(said)
    (own,) = (each for each in found.sockets if each.port == port and each.is_loopback)
    assert shown in own.programs


def test_one_sparks_processes_meet_on_loopback() -> None:
    """Each recipe's, whatever release of vLLM it names; a pair's addresses are found at a start."""
    recipe = load_recipe("qwen3.6-35b-nvfp4-dflash")
    loopback = {"VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    assert environment(recipe).items() >= loopback.items()
    assert not loopback.keys() & environment(recipe.for_sparks(2), 2).keys()


def settings(text: str) -> dict[str, list[str]]:
    """Return what a unit's file sets."""
    lines = [line.split("=", 1) for line in text.splitlines() if line.startswith("IPAddress")]
    return {key: value.split() for key, value in lines}


def test_what_the_guard_lets_through() -> None:
    (alone,) = guard_files("/r", (), internet=False)
    assert settings(alone.text) == {"IPAddressAllow": ["localhost"], "IPAddressDeny": ["any"]}
    both = guard_files("/r", ("192.168.100.11", "192.168.100.12"), internet=False)
    assert [settings(file.text) for file in both] == [
        settings(alone.text),
        {"IPAddressAllow": ["192.168.100.11", "192.168.100.12"], "IPAddressDeny": ["any"]},
    ]
    assert all("/r." in file.text or "/r " in file.text for file in both)


def test_media_of_the_internet_open_no_way_to_the_lan() -> None:
    (alone,) = guard_files("/r", (), internet=True)
    denied = settings(alone.text)["IPAddressDeny"]
    assert {"10.0.0.0/8", "192.168.0.0/16", "169.254.0.0/16", "fe80::/10"} <= set(denied)
    assert "any" not in denied
    _, pair = guard_files("/r", ("192.168.100.11",), internet=True)
    assert settings(pair.text)["IPAddressAllow"] == ["192.168.100.11", "127.0.0.53"]
    assert {"localhost", "10.0.0.0/8"} <= set(settings(pair.text)["IPAddressDeny"])
