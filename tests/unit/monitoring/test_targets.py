"""What Prometheus keeps where one Spark serves two replicas, whose doors tell of both."""

import re
from pathlib import Path

import yaml

from sparkwright.fleet.fleet import Fleet, Replica, Spark
from sparkwright.fleet.settings import Settings
from sparkwright.monitoring.targets import prometheus_config, targets

FLEET = Fleet(
    Path("sparks.yaml"),
    {"a": Spark(ssh_hostname="192.0.2.1"), "b": Spark(ssh_hostname="192.0.2.2")},
    {
        "chat": Replica(recipe="x", sparks=["a"]),
        "embed": Replica(recipe="y", sparks=["a"], port=8001),
        "alone": Replica(recipe="x", sparks=["b"]),
    },
)
# Values of `__name__` and `seat`, as Prometheus joins them.
FIRST, SECOND, SPARKS = (
    "spark_engine_active;",
    "spark_engine_active;embed",
    "spark_gpu_power_watts;",
)


def kept(replica: str) -> list[str]:
    """Return which of them the job of a replica's host keeps."""
    found = targets(FLEET, dict.fromkeys(FLEET.replicas, Settings()), lambda _: None)
    jobs = yaml.safe_load(prometheus_config(found))["scrape_configs"]
    (job,) = (each for each in jobs if each["job_name"] == f"{replica}-host")
    drops = [each for each in job["metric_relabel_configs"] if each.get("action") == "drop"]
    return [
        each
        for each in (FIRST, SECOND, SPARKS)
        if not any(re.fullmatch(drop["regex"], each) for drop in drops)
    ]


def test_each_replica_has_its_own_engine_and_the_sparks_figures() -> None:
    assert kept("chat") == [FIRST, SPARKS]
    assert kept("embed") == [SECOND, SPARKS]
    assert kept("alone") == [FIRST, SECOND, SPARKS]


def test_two_doors_of_a_spark_have_two_ports() -> None:
    found = targets(FLEET, dict.fromkeys(FLEET.replicas, Settings()), lambda _: None)
    assert [each.address for each in found] == [
        "192.0.2.1:8000",
        "192.0.2.1:8001",
        "192.0.2.2:8000",
    ]
