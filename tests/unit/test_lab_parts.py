"""The lab's parts that need neither root nor a Spark."""

import argparse
import itertools
import json
import os
import socket
import stat
import subprocess
import time

import pytest
import yaml

from deploys.plan.fleet_check import unsupported
from deploys.plan.fleet_file import load_fleet
from deploys.plan.recipes import load_recipe, recipe_names
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
            *itertools.chain(*network.fabric_ends(spark)),
            *(network.mac(network.number(spark), index) for index in range(5)),
        )
    ]
    assert len(every) == len(set(every))
    assert network.address("spark4") == "10.213.0.14"


def test_interface_names_fit_the_kernel():
    """IFNAMSIZ is 16 with its final zero byte."""
    names = [*network.BRIDGES, network.LAN_PORT, *itertools.chain(*network.FABRIC_PORTS)]
    for spark in rootfs.SPARKS:
        names += [network.lan_end(spark), network.line_end(spark)]
        names += itertools.chain(*network.fabric_ends(spark))
    assert max(map(len, names)) <= 15


def test_hardware_addresses_are_local_and_unicast():
    assert int(network.mac(1, 0).split(":")[0], 16) & 0b11 == 0b10


@pytest.mark.parametrize(("near", "far"), [("spark1", "spark2"), ("spark4", "spark3")])
def test_a_fabric_cable_joins_two(near, far):
    assert network.neighbour(near) == far
    assert network.neighbour(far) == near
    assert network.fabric(near) == network.fabric(far)


def test_pairs_do_not_share_a_cable():
    assert not set(network.fabric("spark2")) & set(network.fabric("spark3"))


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
    sizes = [len(fleet.replicas[fleet.assignment(spark).replica].sparks) for spark in fleet.sparks]
    assert sizes == [1] * count


@pytest.mark.parametrize("count", [2, 4])
def test_fleet_of_pairs(count, tmp_path, monkeypatch):
    monkeypatch.setattr(rootfs, "keys", lambda: tmp_path)
    file = tmp_path / "lab.yaml"
    file.write_text(lab.fleet_text(rootfs.SPARKS[:count], pair=True))
    fleet = load_fleet(file, recipe_names())
    assert not unsupported(fleet, {"lab-tiny": load_recipe("lab-tiny")})
    ranks = [(each.replica, each.rank) for each in map(fleet.assignment, fleet.sparks)]
    assert ranks == [("lab1", 0), ("lab1", 1), ("lab2", 0), ("lab2", 1)][:count]


def test_a_spark_without_a_partner_is_refused():
    with pytest.raises(state.LabError, match="found 3 Sparks to be paired"):
        lab.fleet_text(rootfs.SPARKS[:3], pair=True)


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


@pytest.mark.parametrize(
    ("variant", "driver", "cuda"),
    [("driver-570", "570.124.06", "12.8"), ("driver-580.95", "580.95.05", "13.0")],
)
def test_other_drivers(variant, driver, cuda, tmp_path):
    program = tmp_path / "root/usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_bytes((rootfs.DGX_OS / "usr/bin/nvidia-smi").read_bytes())
    factory.VARIANTS[variant](tmp_path)
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
    factory.VARIANTS[variant](tmp_path / "spark2")
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    found = yaml.safe_load(file.read_text())["network"]["ethernets"]
    assert {port: each["addresses"] for port, each in found.items()} == {
        port: [address] for port, address in addresses.items()
    }


@pytest.mark.parametrize(("cut", "words"), [("", "whole"), ("b", "twin a only"), ("ab", "cut")])
def test_status_says_what_a_cable_carries(cut, words, tmp_path, monkeypatch):
    monkeypatch.setattr(state, "RUN", tmp_path)
    monkeypatch.setattr(state, "_FILE", tmp_path / "lab.json")
    monkeypatch.setattr(services, "answers", lambda host, port: False)
    cable = state.Cable(port=1, cut=set(cut), mtu=1500)
    state.write(state.State(sparks={"spark1": state.Spark(cable=cable)}))
    shown = lab.Lab().status()["sparks"]["spark1"]
    assert (shown["cable"], shown["port"], shown["mtu"]) == (words, 1, 1500)


@pytest.mark.parametrize(
    "words", ["cut spark1", "mend spark1 --twin b", "spark1 --port 1", "spark1 --mtu 1500"]
)
def test_cable_takes_its_action_or_an_option(words):
    assert make_parser().parse_args(["cable", *words.split()]).spark == "spark1"


def test_cable_without_a_word_of_what_to_do_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(state, "RUN", tmp_path)
    monkeypatch.setattr(state, "_FILE", tmp_path / "lab.json")
    state.write(state.State(sparks={"spark1": state.Spark()}))
    assert main(["cable", "spark1"]) == 1
    assert "cut, mend, --port or --mtu" in capsys.readouterr().err


def test_answers_tells_open_ports_from_closed_ones():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert services.answers("127.0.0.1", port)
    begun = time.monotonic()
    assert not services.answers("127.0.0.1", port)
    assert time.monotonic() - begun < 2
