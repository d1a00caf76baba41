"""The units of the shares, as they are laid down on a head."""

from pathlib import Path

from sparkwright.fabric.share import lan_share_units, lan_share_url, share_units, share_url
from sparkwright.fleet.fabric_plan import fabric_plan

SUBNETS = ("192.168.100.0/24", "192.168.101.0/24")


def test_it_listens_on_the_fabric_and_knows_the_worker() -> None:
    plan = fabric_plan("a", ["a", "b"], SUBNETS, mtu=9000, bandwidth_minimum=80)
    texts = {Path(file.path).name: file.text for file in share_units("/r", plan)}
    assert "ListenStream=192.168.100.11:29502\nFreeBind=yes" in texts[
        "fabric-share.socket"
    ].replace("# The fabric may come up later than this.\n", "")
    service = texts["fabric-share.service"]
    assert "/r/bin/sparkwright-host serve-files /r 192.168.100.12 192.168.101.12\n" in service
    assert "InaccessiblePaths=/r/secrets " in service
    assert share_url(plan.addresses[0]) == "http://192.168.100.11:29502"


def test_the_lan_gets_what_is_lent_and_nothing_else() -> None:
    units = lan_share_units("/r", "10.0.0.1", ["10.0.0.2", "10.0.0.3"], ["model@1", "draft@2"])
    texts = {Path(file.path).name: file.text for file in units}
    assert texts.keys() == {"lan-share.service", "lan-share.socket"}
    assert "ListenStream=10.0.0.1:29504\n" in texts["lan-share.socket"]
    service = texts["lan-share.service"]
    assert "/r/bin/sparkwright-host serve-files /r 10.0.0.2 10.0.0.3\n" in service
    assert (
        "TemporaryFileSystem=/r:ro\nBindReadOnlyPaths=/r/bin -/r/model@1 -/r/draft@2\n" in service
    )
    for text in texts.values():
        assert "IPAddressDeny=any\nIPAddressAllow=10.0.0.2 10.0.0.3\n" in text
    assert lan_share_url("10.0.0.1") == "http://10.0.0.1:29504"


def test_an_ipv6_address_is_written_in_brackets() -> None:
    (socket,) = (
        file.text for file in lan_share_units("/r", "fd00::1", [], []) if "socket" in file.path
    )
    assert "ListenStream=[fd00::1]:29504\n" in socket
    assert lan_share_url("fd00::1") == "http://[fd00::1]:29504"
