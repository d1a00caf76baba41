"""The fabric between two virtual Sparks, as tests of the lab address and look at it."""

import itertools
from functools import partial

from tests.clock import patience
from tests.driver.sparks import eventually
from tests.lab.network import FABRIC_PORTS
from tests.lab.spark import Handle

_NETPLAN = """
network:
  version: 2
  ethernets:
    enp1s0f0np0: {{addresses: [192.168.100.{number}/24], mtu: 9000}}
    enP2p1s0f0np0: {{addresses: [192.168.101.{number}/24], mtu: 9000}}
"""


def address(near: Handle, far: Handle) -> None:
    """Give both twins of both Sparks addresses: .10 and .11."""
    for number, spark in enumerate((near, far), start=10):
        file = "/etc/netplan/60-fabric.yaml"
        command = f"sudo install -m 600 /dev/stdin {file} && sudo netplan apply"
        spark.run(command, stdin=_NETPLAN.format(number=number))


def received(spark: Handle, address: str, options: str = "", count: int = 3) -> int:
    # A ping that reads a wrong time in an answer may wait for years.
    bound = f"timeout --signal=INT {patience(30):g}"
    ping = f"{bound} ping -q -i 0.02 -W 1 -c {count} {options} {address}"
    done = spark.run(ping, check=False)
    return int(done.stdout.split(" received")[0].split()[-1])


def carriers(spark: Handle) -> str:
    """Return which fabric interfaces have a carrier, port by port, as 1100 for the first port's."""
    files = " ".join(f"/sys/class/net/{each}/carrier" for each in itertools.chain(*FABRIC_PORTS))
    return spark.run(f"cat {files}").stdout.replace("\n", "")


def wait(near: Handle) -> None:
    for address in ("192.168.100.11", "192.168.101.11"):
        eventually(partial(received, near, address, count=1), f"an answer of {address}")
