"""A run that changes nothing, compared with Ansible, Mitogen and a login, on a converged Spark."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.ansible import Playbook, playbook
from tests.benchmarks.tools import Cost, check_unchanged, machine, measured, record, typical
from tests.driver.product import DEPLOY, command
from tests.lab.spark import Handle

ROUNDS = 5
# Seconds of the longer round trip; seconds each way, by the round trip's name.
TRIP = 0.05
DELAYS = {"on the lab's LAN": 0.0, "at 50 ms round trip": TRIP / 2}
LOGIN, START, OURS = "ssh host true", "pyinfra's start", "ours"
MITOGEN, ANSIBLE = "Mitogen", "Ansible"
# How many times as fast as each.
AIMS = {MITOGEN: 5, ANSIBLE: 30}


def login(spark: Handle) -> Cost:
    program, *words = spark.ssh_command("true")
    return measured([program, "-o", "ControlPath=none", *words])[0]


def ours() -> Cost:
    cost, output = measured([*command("inventory/lab.py"), DEPLOY, "-y"])
    check_unchanged(output, 1)
    return cost


def start(deploy: Path) -> Cost:
    """Return the cost of pyinfra's own: a run on this machine of a deploy without operations."""
    return measured([*command("@local"), deploy.name, "-y"], folder=deploy.parent)[0]


def no_op_table(spark: Handle) -> dict[str, Cost]:
    """Measure all in turn, at each round trip; return the table of the shorter one."""
    tables = {}
    with TemporaryDirectory() as folder, playbook(spark) as book:
        empty = Path(folder, "empty.py")
        empty.touch()
        ways = _ways(spark, empty, book)
        # The first of each makes connections and caches that the others find.
        for way in ways.values():
            way()
        for title, delay in DELAYS.items():
            spark.netem(delay=delay)
            rounds = []
            for _ in range(ROUNDS):
                rounds.append({name: way() for name, way in ways.items()})
                each = ", ".join(f"{name} {cost.seconds:.2f}" for name, cost in rounds[-1].items())
                print(f"  {title}: {each}", flush=True)
            tables[title] = {name: typical([each[name] for each in rounds]) for name in ways}
        spark.netem()
    figures = {
        title: {name: asdict(cost) for name, cost in table.items()}
        for title, table in tables.items()
    }
    head = {"rounds": ROUNDS, "aims": AIMS, "tasks": book.tasks, "items": book.items}
    record("no-op", {**head, "machine": machine(), "tables": figures})
    return tables[next(iter(DELAYS))]


def _ways(spark: Handle, empty: Path, book: Playbook) -> dict[str, Callable[[], Cost]]:
    return {
        LOGIN: lambda: login(spark),
        START: lambda: start(empty),
        OURS: ours,
        MITOGEN: lambda: book.run(mitogen=True),
        ANSIBLE: book.run,
    }
