"""The units of the share, as they are laid down on a head."""

from pathlib import Path

from sparkwright.fleet.fabric_plan import fabric_plan
from sparkwright.weights.deploy import share_units

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
