"""An engine that may fetch media from the internet: it reaches that, and no neighbour."""

from tests.driver.product import DEPLOY, pyinfra
from tests.driver.sparks import current
from tests.driver.ways_out import CLOSED, OPEN, abstract_listener, tried
from tests.lab.spark import Handle
from tests.lab.state import PROJECT

NETWORK = "sudo docker network inspect -f '{{(index .IPAM.Config 0).Gateway}}' sparkwright"
LEFT = "sudo docker network ls --quiet --filter label=sparkwright; getent passwd sparkwright-engine"
# The lab has no internet to reach: what can be seen is that a packet would have a way to it.
ROUTES = {"a route to the internet": "absent('00000000' in open('/proc/net/route').read())"}
BRIDGE = {"sshd on the bridge": "tcp(BRIDGE, 22)", "the door on the bridge": "tcp(BRIDGE, 8000)"}


def test_its_network_leads_to_the_internet_alone(spark: Handle) -> None:
    group = PROJECT / "group_data/lab.py"
    before = group.read_text()
    try:
        group.write_text(f'{before}\nmedia_domains = ("images.example.org",)\n')
        pyinfra(DEPLOY).succeeded()
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
        given = {
            "LAN": spark.address,
            "GATE": spark.run("ip route show default | cut -d' ' -f3").stdout.strip(),
            "OTHER": "other",
            "BRIDGE": spark.run(NETWORK).stdout.strip(),
        }
        ways = {**CLOSED, **BRIDGE, **ROUTES, **OPEN}
        # A machine of the lab may have a way to the internet, or none.
        internet = {"the internet", "the internet by IPv6"}
        with abstract_listener(spark):
            found = tried(spark, current(spark), ways, **given)
        is_open = {name for name, each in found.items() if each}
        assert is_open - internet == {*OPEN, *ROUTES}
        pyinfra("deploys/remove.py").succeeded()
        assert spark.run(LEFT, check=False).stdout == ""
    finally:
        group.write_text(before)
