"""Costs of a run that changes nothing for the operator's machine, by the number of Sparks.

All of them are one virtual Spark, by an address each. Each has a connection, a survey and a lease,
as in a fleet, so the CPU time and memory of the operator's machine are those of a fleet. The time
that passes is not: one Spark does the work of all, on the same processors.
"""

from dataclasses import asdict
from typing import Any

import yaml

from tests.benchmarks.tools import Cost, check_unchanged, measured, record, typical
from tests.driver.product import DEPLOY, command
from tests.lab.lab import fleet_text
from tests.lab.network import LAN_PORT
from tests.lab.spark import Handle
from tests.lab.state import FLEET, KNOWN_HOSTS

SIZES = (1, 4, 16, 64)
ROUNDS = 3
INVENTORY = "tests/benchmarks/replicated/lab.py"
_FIRST_ADDRESS = 100
# 64 leases come to one lock, by `flock -w`, and all are to get it. As many connections come to one
# sshd, which refuses some of more than ten by default: so it would be with a jump host.
_PREPARE = """
printf '#!/bin/sh\\n[ "$1" = -w ] || exec /usr/bin/flock "$@"\\n' > /usr/local/bin/flock
chmod 755 /usr/local/bin/flock
"""

Groups = dict[str, list[tuple[str, dict[str, Any]]]]


def alike(groups: Groups) -> Groups:
    """Return groups with each host declared as the first: one Spark has the files of one."""
    declared = groups["sparks"][0][1]
    shared = {key: declared[key] for key in ("spark", "replica", "ranks")}
    return {
        name: [(host, {**data, **shared}) for host, data in hosts] for name, hosts in groups.items()
    }


def no_op(hosts: int) -> Cost:
    cost, output = measured([*command(INVENTORY), DEPLOY, "-y"])
    check_unchanged(output, hosts)
    return cost


def prepare(spark: Handle, most: int) -> None:
    """Give a Spark addresses, for a fleet of so many, and let runs reach it by all at once."""
    addresses = "".join(
        f"ip address replace {address(number)}/24 dev {LAN_PORT}\n" for number in range(most)
    )
    spark.run("sudo sh -e", stdin=_PREPARE + addresses)
    kind, key = KNOWN_HOSTS.read_text().split()[1:3]
    with KNOWN_HOSTS.open("a") as file:
        file.writelines(f"{address(number)} {kind} {key}\n" for number in range(most))


def address(number: int) -> str:
    return f"10.213.0.{_FIRST_ADDRESS + number}"


def write_inventory(size: int) -> None:
    fleet = yaml.safe_load(fleet_text([f"spark{number + 1}" for number in range(size)]))
    for number, spark in enumerate(fleet["sparks"].values()):
        spark["ssh_hostname"] = address(number)
    FLEET.write_text(yaml.safe_dump(fleet, sort_keys=False))


def fleet_table(spark: Handle) -> None:
    """Measure runs that change nothing, in turn. The Spark is then used up."""
    prepare(spark, max(SIZES))
    rounds: dict[int, list[Cost]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size in SIZES:
            write_inventory(size)
            rounds[size].append(no_op(size))
            print(f"  {size} Sparks: {rounds[size][-1]}", flush=True)
    table = {size: typical(costs) for size, costs in rounds.items()}
    record("fleet", {size: asdict(cost) for size, cost in table.items()})
