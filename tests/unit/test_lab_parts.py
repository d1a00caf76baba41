"""The lab's parts that need neither root nor a Spark."""

import argparse
import json
import os
import socket
import stat
import subprocess
import time

import pytest

from deploys.plan.fleet import load_fleet, unsupported
from deploys.plan.recipe import load_recipe, recipe_names
from tests.lab import factory, lab, line, network, rootfs, services, state
from tests.lab.__main__ import main, make_parser, milliseconds, percent


def test_every_spark_has_names_and_addresses_of_its_own():
    every = [
        name
        for spark in rootfs.SPARKS
        for name in (
            network.address(spark),
            network.lan_end(spark),
            network.line_end(spark),
            *network.fabric_ends(spark),
            *(network.mac(network.number(spark), bridge) for bridge in network.FABRIC),
            network.mac(network.number(spark), network.LAN),
        )
    ]
    assert len(every) == len(set(every))
    assert network.address("spark4") == "10.213.0.14"


def test_interface_names_fit_the_kernel():
    """IFNAMSIZ is 16 with its final zero byte."""
    names = [network.LAN, *network.FABRIC, network.LAN_PORT, *network.FABRIC_PORTS]
    for spark in rootfs.SPARKS:
        names += [network.lan_end(spark), network.line_end(spark), *network.fabric_ends(spark)]
    assert max(map(len, names)) <= 15


def test_hardware_addresses_are_local_and_unicast():
    assert int(network.mac(1, network.LAN).split(":")[0], 16) & 0b11 == 0b10


@pytest.mark.parametrize("count", [1, 2, 4])
def test_fleet_is_a_valid_inventory(count, tmp_path, monkeypatch):
    monkeypatch.setattr(rootfs, "keys", lambda: tmp_path)
    file = tmp_path / "lab.yaml"
    file.write_text(lab.fleet_text(rootfs.SPARKS[:count]))
    fleet = load_fleet(file, recipe_names())
    assert not unsupported(fleet, {"lab-tiny": load_recipe("lab-tiny")})
    assert list(fleet.sparks) == list(rootfs.SPARKS[:count])
    assert {spark.hardware for spark in fleet.sparks.values()} == {"lab"}
    assert fleet.sparks["spark1"].ssh_hostname == "10.213.0.11"
    assert [fleet.assignment(spark).nodes for spark in fleet.sparks] == [1] * count


def test_process_is_known_by_its_start_time():
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    process = state.Process.of(child.pid)
    try:
        assert process.alive()
        assert not process.model_copy(update={"started": process.started - 1}).alive()
    finally:
        process.end()
        child.wait()
    assert not process.alive()


def test_end_kills_what_ignores_sigterm(monkeypatch):
    command = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    child = subprocess.Popen(["sh", "-c", command], start_new_session=True, stdout=subprocess.PIPE)
    child.stdout.readline()
    wait_for = state.wait_for
    monkeypatch.setattr(
        state, "wait_for", lambda done, timeout, what: wait_for(done, timeout / 10, what)
    )
    state.Process.of(child.pid).end()
    assert child.wait() == -9
    child.stdout.close()


def test_wait_for_gives_up_and_says_for_what():
    with pytest.raises(state.LabError, match="waited 0 s for the moon"):
        state.wait_for(lambda: False, 0.05, "the moon")


def test_state_survives_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "RUN", tmp_path)
    monkeypatch.setattr(state, "_FILE", tmp_path / "lab.json")
    assert state.read() is None
    with pytest.raises(state.LabError, match="no lab is up"):
        state.require()
    before = state.State(
        sparks={"spark1": state.Spark(factory="no-driver", cable=False, delay=0.025)},
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


def test_way_loses_all_or_nothing_at_the_extremes():
    for loss, expected in ((0, 1.0), (1, None)):
        source, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        way = line.Way(source.fileno(), source.fileno(), delay=1, loss=loss)
        sender.send(b"frame")
        way.take(0)
        assert way.give(0.5) == expected
        source.close()
        sender.close()


@pytest.mark.parametrize(("text", "seconds"), [("25ms", 0.025), ("25", 0.025), ("0.5ms", 0.0005)])
def test_milliseconds(text, seconds):
    assert milliseconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "part"), [("1%", 0.01), ("0.5%", 0.005), ("100", 1)])
def test_percent(text, part):
    assert percent(text) == pytest.approx(part)


@pytest.mark.parametrize(
    ("reader", "text"), [(milliseconds, "25s"), (milliseconds, "-1"), (percent, "101%")]
)
def test_wrong_amounts_are_refused(reader, text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected"):
        reader(text)


def test_ssh_takes_the_command_after_the_dashes():
    options = make_parser().parse_args(["ssh", "spark1", "--", "uname", "-a"])
    assert options.spark == "spark1"
    # Whether argparse itself drops the dashes depends on Python's version.
    assert [word for word in options.remote if word != "--"] == ["uname", "-a"]


@pytest.mark.parametrize("words", [["up", "--sparks", "5"], ["reset", "spark1", "--factory", "x"]])
def test_wrong_words_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        make_parser().parse_args(words)
    assert "invalid choice" in capsys.readouterr().err


def test_errors_name_the_remedy(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["up"]) == 1
    assert "sudo" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert main(["up"]) == 1
    assert "apt-get install systemd-container" in capsys.readouterr().err


def test_packages_are_printed(capsys):
    assert main(["packages"]) == 0
    assert capsys.readouterr().out.split() == list(lab.PACKAGES)


def test_factory_state_is_that_of_a_spark():
    settings = json.loads((rootfs.DGX_OS / "etc/docker/daemon.json").read_text())
    assert settings.keys() > {"insecure-registries", "runtimes"}
    assert 'DGX_NAME="DGX Spark"' in (rootfs.DGX_OS / "etc/dgx-release").read_text()
    for program in ("usr/bin/nvidia-smi", "usr/local/sbin/runc"):
        assert (rootfs.DGX_OS / program).stat().st_mode & stat.S_IXUSR


def test_driver_570_changes_driver_and_cuda(tmp_path):
    program = tmp_path / "root/usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_bytes((rootfs.DGX_OS / "usr/bin/nvidia-smi").read_bytes())
    factory.VARIANTS["driver-570"](tmp_path)
    shown = subprocess.run(["sh", program], capture_output=True, text=True, check=True).stdout
    assert "Driver Version: 570.124.06" in shown
    assert "CUDA Version: 12.8" in shown


def test_answers_tells_open_ports_from_closed_ones():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert services.answers("127.0.0.1", port)
    begun = time.monotonic()
    assert not services.answers("127.0.0.1", port)
    assert time.monotonic() - begun < 2
