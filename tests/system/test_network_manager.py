"""Two Sparks whose network NetworkManager sets, as on DGX OS: to one served model, and back.

NetworkManager and netplan are Debian's. Ubuntu's NetworkManager also keeps its connections as
/etc/netplan/90-NM-UUID.yaml, which Debian's does not: here `kept` writes them, by the function of
netplan's library that Ubuntu's calls.
"""

import re

import pytest

from tests.driver.listing import changes, from_factory, listing, purge
from tests.driver.pairs import Pair
from tests.driver.product import DEPLOY, pyinfra
from tests.lab.network import FABRIC_PORTS
from tests.lab.spark import Handle

FABRIC = "sparkwright.network.fabric.deploy.apply"
RUN = "/run/NetworkManager/system-connections"
A, B = FABRIC_PORTS[0]
CX7 = f"""
network:
  version: 2
  ethernets:
    {A}: {{dhcp4: no, addresses: [192.168.200.12/24]}}
    {B}: {{dhcp4: no, addresses: [192.168.201.12/24]}}
"""
REFUSED = """
network:
  version: 2
  ethernets:
    NM-0a0b0c0d-0000-4000-8000-000000000000:
      renderer: NetworkManager
      match: {name: "enp1s0f1np1"}
      addresses: ["192.168.7.1"]
"""
_KEEP = """
import ctypes, os, sys

netplan = ctypes.CDLL("libnetplan.so.1")
for name in ("netplan_parser_new", "netplan_state_new", "netplan_state_get_netdef"):
    getattr(netplan, name).restype = ctypes.c_void_p
parser = ctypes.c_void_p(netplan.netplan_parser_new())
state = ctypes.c_void_p(netplan.netplan_state_new())
error = ctypes.c_void_p()
profile, entry = map(os.fsencode, sys.argv[1:])
assert netplan.netplan_parser_load_keyfile(parser, profile, ctypes.byref(error))
assert netplan.netplan_state_import_parser_results(state, parser, ctypes.byref(error))
entry = ctypes.c_void_p(netplan.netplan_state_get_netdef(state, entry))
assert netplan.netplan_netdef_write_yaml(state, entry, None, ctypes.byref(error))
"""


def kept(spark: Handle, profile: str, entry: str) -> None:
    """Have a profile's file kept by netplan's name, as Ubuntu's NetworkManager does."""
    spark.run(f"sudo python3 - '{profile}' {entry} && sudo rm '{profile}'", stdin=_KEEP)
    spark.run("sudo netplan generate && sudo nmcli connection reload")


def connections(spark: Handle) -> dict[str, str]:
    """Return the connection that each interface has now."""
    said = spark.run("nmcli --terse --fields DEVICE,CONNECTION device").stdout
    return dict(line.split(":", 1) for line in said.splitlines())


def told_command(output: str) -> str:
    """Return the only command that a run's error says to enter."""
    (command,) = set(re.findall(r"`(sudo mv [^`]*)`", output))
    return command


@pytest.fixture(scope="module")
def managed(pair: Pair) -> list[dict[str, set[str]]]:
    """What each Spark is as it left the factory; the head keeps what NetworkManager made for B."""
    found = pair.each(lambda spark: from_factory(spark, "network-manager"))
    made = pair.head.run(f"sudo grep -l interface-name={B} {RUN}/Wired*").stdout.strip()
    uuid = pair.head.run(f"sudo sed -n s/^uuid=//p '{made}'").stdout.strip()
    kept(pair.head, made, f"NM-{uuid}")
    return [listing(pair.head), found[1]]


def test_what_a_playbook_and_networkmanager_left_goes_by_one_command(
    pair: Pair, managed: list[dict[str, set[str]]]
) -> None:
    """The worker's port was set up by NVIDIA's playbook, and changed in NetworkManager since."""
    worker = pair.worker
    worker.run("sudo install -m 600 /dev/stdin /etc/netplan/40-cx7.yaml", stdin=CX7)
    worker.run("sudo netplan generate && sudo nmcli connection reload")
    # With the number that NetworkManager gave it, the profile is the one that it would write.
    worker.run(
        f"uuid=$(nmcli -g connection.uuid connection show netplan-{A}) && "
        f'sudo sed -i "s/^type=/uuid=$uuid\\n&/" {RUN}/netplan-{A}.nmconnection'
    )
    kept(worker, f"{RUN}/netplan-{A}.nmconnection", A)
    assert "90-NM-" in worker.run(f"sudo grep -l {A}: /etc/netplan/*").stdout
    worker.run(told_command(pyinfra(DEPLOY).refused().output))


def test_a_connection_that_netplan_refuses_goes_by_one_command(pair: Pair) -> None:
    file = "/etc/netplan/90-NM-0a0b0c0d-0000-4000-8000-000000000000.yaml"
    pair.head.run(f"sudo install -m 600 /dev/stdin {file}", stdin=REFUSED)
    pair.head.run(told_command(pyinfra(FABRIC).fails("192.168.7.1").output))
    pyinfra(FABRIC).succeeded()


def test_the_pair_serves_and_a_second_run_changes_nothing(pair: Pair) -> None:
    lan = [connections(spark)["enP7s7"] for spark in pair.both]
    pyinfra(DEPLOY).succeeded()
    pair.wait_serving()
    for spark in pair.both:
        found = connections(spark)
        assert (found[A], found[B]) == (f"netplan-{A}", f"netplan-{B}")
    assert [connections(spark)["enP7s7"] for spark in pair.both] == lan == ["LAN", "LAN"]
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_the_pair_comes_back_after_a_reboot(pair: Pair) -> None:
    pair.each(Handle.reboot)
    pair.wait_serving()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_the_removal_leaves_both_as_delivered(
    pair: Pair, managed: list[dict[str, set[str]]]
) -> None:
    run = pyinfra("deploys/remove.py", "--data", "weights=remove").succeeded()
    for spark in pair.both:
        purge(run, spark)
        spark.run("sudo sh -c 'rm -f /root/*.yaml'")
        assert not connections(spark)[A].startswith("netplan-")
    for before, after in zip(managed, pair.each(listing), strict=True):
        assert changes(before, after) == {}
