"""The gateway as it is found on its host, and what an operation does there."""

from typing import Any

from pyinfra.api import HiddenValue

from sparkwright.common.files import Directory, ManagedFile
from sparkwright.door.gateway.deploy import UNITS, GatewayState, GatewayStates, gateway
from tests.makers.door import plan
from tests.unit.driven import fake_host, said_of_file
from tests.unit.units import said_of_units


def output(
    units: str, installed: str = "/usr/sbin/haproxy", taken: str = "", status: str = ""
) -> list[str]:
    said = {"installed": installed, "stray": "", "taken": taken, "status": status}
    lines = [line for name, text in said.items() for line in (f"@@{name}", *text.splitlines())]
    return [*lines, *said_of_units(dict.fromkeys(UNITS, units))]


def test_the_state_of_a_gateway() -> None:
    said = output("active enabled", status="in service: chat-a")
    assert GatewayStates().process(said) == GatewayState(
        installed=True,
        stray=False,
        active=True,
        enabled=True,
        outdated=False,
        taken=(),
        status="in service: chat-a",
    )
    found = GatewayStates().process(output("active outdated", taken="nginx (pid 7)"))
    assert (found.outdated, found.taken, found.enabled) == (True, ("nginx (pid 7)",), False)


ARGUMENTS: dict[str, Any] = {
    "root": "/r",
    "entries": [Directory("/r/gateway"), ManagedFile("/r/gateway/config.yaml", "x\n")],
    "requirements": "litellm==1\n",
    "secrets": {
        "/r/secrets/gateway.env": HiddenValue("DOOR_KEY=sk-s3cret\n"),
        "/r/gateway/door/keys": HiddenValue("0A1B\n"),
    },
    "door": plan(4000),
    "url": "http://192.0.2.1:4000",
    "names": "x (chat-a)",
}
ABSENT = output("", installed="")


def test_a_first_run_ends_with_a_started_gateway() -> None:
    spark = fake_host({"@@taken": ABSENT}, root="/r")
    assert spark.predicts_change(gateway, **ARGUMENTS)
    spark.run(gateway, **ARGUMENTS)
    scripts = spark.scripts()
    kinds = [
        word
        for script in scripts
        for word in ("pip install", "enable", "start")
        if f"{word} --quiet" in script or f"systemctl {word} gateway" in script
    ]
    assert kinds == ["pip install", "enable", "start"]
    assert not any("s3cret" in script for script in scripts)
    secrets = [stdin for _, stdin in spark.commands if stdin]
    assert secrets == ["DOOR_KEY=sk-s3cret\n", "0A1B\n"]
    # Its door's files are read by haproxy before anything stops.
    (start,) = (script for script in scripts if "systemctl start" in script)
    assert start.index("haproxy -c") < start.index("systemctl stop gateway-door.service")


def test_without_tls_no_certificate_and_key_stay() -> None:
    path = "/r/gateway/door/certificate.pem"
    there = said_of_file(path, "a key", "600")
    spark = fake_host({"@@taken": ABSENT, f"set -- {path}": there}, root="/r")
    secrets = {**ARGUMENTS["secrets"], path: None}
    spark.run(gateway, **{**ARGUMENTS, "secrets": secrets})
    scripts = spark.scripts()
    (start,) = (index for index, each in enumerate(scripts) if "systemctl start" in each)
    assert scripts.index(f"rm -f {path} {path}.new") < start


def test_a_taken_port_is_told_before_anything_changes() -> None:
    spark = fake_host({"@@taken": output("", taken="nginx (pid 7)")}, root="/r")
    assert spark.run(gateway, **ARGUMENTS).did_error()
    assert "Port 4000 is taken by nginx (pid 7)" in spark.scripts()[-1]
    assert len(spark.commands) == 2
