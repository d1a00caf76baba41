"""What other tools and NetworkManager have set for the twins."""

import pytest

from sparkwright.common.placed import NETPLAN
from sparkwright.network.fabric.netplan import our_netdevs
from sparkwright.network.fabric.state import NetplanFile, Profile
from tests.makers.fabric import PORT_1, A, B, found, spark
from tests.makers.models import changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"network: {{ethernets: {{{A}: {{dhcp4: no}}, {B}: {{dhcp4: no}}}}}}",
            f"sets {A}, {B}: that would be merged with the fabric's file, or fight with it. "
            "Move it away (`sudo mv /etc/netplan/40-cx7.yaml /root/`)",
        ),
        (
            f"network: {{ethernets: {{enP7s7: {{}}, {B}: {{}}}}}}",
            f"sets {B}: netplan would merge that with the fabric's file. Take {B} out of it",
        ),
        (f"network: {{ethernets: {{x: {{match: {{name: {A}}}}}}}}}", "sets x"),
        ("network: {ethernets: {x: {match: {macaddress: '4C:BB:47:00:01:00'}}}}", "sets x"),
        (f"network: {{bonds: {{bond0: {{interfaces: [{A}, {B}]}}}}}}", "sets bond0"),
        # As NetworkManager on Ubuntu writes a change to an entry of another file.
        (f"network: {{ethernets: {{{A}: {{match: {{}}, mtu: 1500}}}}}}", f"sets {A}: that would"),
        (f"network: {{ethernets: {{{A}: {{}}}}, wifis: {{wlP9s9: {{}}}}}}", f"Take {A} out of it"),
        ("network: [", "is not YAML"),
    ],
)
def test_a_file_of_another_tool_that_sets_a_twin_is_an_error(text, message):
    file = NetplanFile("/etc/netplan/40-cx7.yaml", "root:600", text)
    own = spark()
    (told,) = found(changed(own, netplan=(*own.netplan, file)))
    assert told.startswith("error: /etc/netplan/40-cx7.yaml ")
    assert message in told


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("network: {ethernets: {all-en: {match: {name: 'en*'}, dhcp4: true}}}", 1),
        ("network: {ethernets: {any: {match: {}, dhcp4: true}}}", 1),
        ("network: {ethernets: {x: {match: {name: 'wl*'}}}}", 0),
        (f"network: {{ethernets: {{{PORT_1[0]}: {{dhcp4: true}}}}}}", 0),
        ("network: {renderer: NetworkManager}", 0),
        ("network: {ethernets: }", 0),
        ("", 0),
    ],
)
def test_a_pattern_is_a_warning_and_other_interfaces_are_nothing(text, warnings):
    own = changed(spark(), netplan=(NetplanFile("/etc/netplan/50.yaml", "root:600", text),))
    told = found(own)
    assert len(told) == warnings
    assert all(line.startswith("warning: the entry ") for line in told)


@pytest.mark.parametrize(
    ("setting", "findings"),
    [
        ("connection.autoconnect-priority: '-999'", 0),
        ("connection.autoconnect: 'false'", 0),
        ("connection.autoconnect-priority: '5'", 1),
        ("connection.timestamp: '1795342587'", 1),
    ],
)
def test_a_connection_that_gives_way_to_ours_may_stay(setting, findings):
    for entry in ("NM-0a", A):
        text = (
            f"network: {{ethernets: {{{entry}: {{match: {{name: {A}}}, "
            f"networkmanager: {{passthrough: {{{setting}}}}}}}}}}}"
        )
        file = NetplanFile("/etc/netplan/90-NM-0a.yaml", "root:600", text)
        # Under the name of a twin it is merged with ours, whatever it says.
        expected = findings if entry != A else 1
        assert len(found(changed(spark(), netplan=(file,)))) == expected


def test_a_file_that_another_one_hides_does_not_count():
    bad = f"network: {{ethernets: {{{A}: {{}}}}}}"
    files = (
        NetplanFile("/usr/lib/netplan/40-cx7.yaml", "root:644", bad),
        NetplanFile("/etc/netplan/40-cx7.yaml", "root:600", ""),
    )
    assert found(changed(spark(), netplan=files)) == []


RELOAD = "&& sudo netplan generate && sudo nmcli connection reload`"


def test_a_profile_of_networkmanager_that_sets_a_twin_is_an_error():
    path = "/etc/NetworkManager/system-connections/my cx7.nmconnection"
    for profile in (Profile(path, A, ""), Profile(path, "", "4c:bb:47:00:01:01")):
        (told,) = found(changed(spark(), profiles=(profile,)))
        assert f"`sudo mv '{path}' /root/ {RELOAD}" in told
    assert found(changed(spark(), profiles=(Profile(path, "", ""),))) == []


def test_one_command_moves_all_files_that_are_for_twins_alone():
    first, second = "/etc/netplan/40-cx7.yaml", "/etc/netplan/90-NM-0a.yaml"
    files = (
        NetplanFile(first, "root:600", f"network: {{ethernets: {{{A}: {{}}, {B}: {{}}}}}}"),
        NetplanFile(second, "root:600", f"network: {{ethernets: {{{A}: {{match: {{}}}}}}}}"),
    )
    profile = Profile("/etc/NetworkManager/system-connections/b.nmconnection", B, "")
    own = spark()
    (told,) = found(changed(own, netplan=(*own.netplan, *files), profiles=(profile,)))
    assert f"{first} and {second} and {profile.path} set {A}, {B}: that would" in told
    assert f"`sudo mv {first} {second} {profile.path} /root/ {RELOAD}" in told


def test_a_file_of_ours_that_is_no_yaml_sets_nothing() -> None:
    broken = changed(spark(), netplan=(NetplanFile(NETPLAN, "root:600", "network: ["),))
    assert our_netdevs(broken) == set()
