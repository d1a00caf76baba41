"""The lab's parts that need neither root nor a Spark."""

import os
import socket
import subprocess

import pytest
import yaml

from tests.lab import line, rootfs, state, variants
from tests.lab.__main__ import main
from tests.lab.lab import Lab


def test_state_survives_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "RUN", tmp_path)
    monkeypatch.setattr(state, "_FILE", tmp_path / "lab.json")
    assert state.read() is None
    with pytest.raises(state.LabError, match="no lab is up"):
        state.require()
    cable = state.Cable(port=1, cut={"b"}, mtu=1500)
    before = state.State(
        pair=True,
        sparks={"spark1": state.Spark(factory="no-driver", cable=cable, delay=0.025)},
        services={"hub": state.Process(pid=1, started=2)},
        kernel={tmp_path / "ip_forward": "0\n"},
    )
    state.write(before)
    assert state.read() == before


def test_way_delays_each_frame_and_keeps_their_order():
    source, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver, target = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    way = line.Way(source.fileno(), target.fileno(), delay=0.5, loss=0)
    for now, frame in ((10.0, b"first"), (10.2, b"second")):
        sender.send(frame)
        way.take(now)
    assert way.give(10.4) == 10.5
    with pytest.raises(BlockingIOError):
        receiver.recv(100)
    assert way.give(10.6) == 10.7
    assert receiver.recv(100) == b"first"
    assert way.give(10.7) is None
    assert receiver.recv(100) == b"second"
    for end in (source, sender, receiver, target):
        end.close()


def test_errors_name_the_remedy(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["up"]) == 1
    assert "sudo" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert main(["up"]) == 1
    assert "apt-get install systemd-container" in capsys.readouterr().err


def test_a_demo_leaves_a_lab_alone_that_is_up(monkeypatch, capsys):
    monkeypatch.setattr(Lab, "status", lambda _: {"up": True})
    monkeypatch.setattr(Lab, "up", lambda *_: pytest.fail("it was brought up"))
    assert main(["demo"]) == 1
    assert "found a lab that is up; expected none. To remove it: make lab-down" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("variant", "driver", "cuda"),
    [("driver-570", "570.124.06", "12.8"), ("driver-580.95", "580.95.05", "13.0")],
)
def test_other_drivers(variant, driver, cuda, tmp_path):
    program = tmp_path / "root/usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_bytes((rootfs.DGX_OS / "usr/bin/nvidia-smi").read_bytes())
    variants.VARIANTS[variant](tmp_path)
    shown = subprocess.run(["sh", program], capture_output=True, text=True, check=True).stdout
    assert f"Driver Version: {driver}" in shown
    assert f"CUDA Version: {cuda}" in shown


@pytest.mark.parametrize(
    ("variant", "addresses"),
    [
        (
            "foreign-netplan",
            {"enp1s0f0np0": "192.168.100.11/24", "enP2p1s0f0np0": "192.168.101.11/24"},
        ),
        ("address-clash", {"enP7s7": "192.168.100.11/24"}),
    ],
)
def test_foreign_addresses(variant, addresses, tmp_path):
    folder = tmp_path / "spark2/root/etc/netplan"
    folder.mkdir(parents=True)
    variants.VARIANTS[variant](tmp_path / "spark2")
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    found = yaml.safe_load(file.read_text())["network"]["ethernets"]
    assert {port: each["addresses"] for port, each in found.items()} == {
        port: [address] for port, address in addresses.items()
    }
