"""The gateway as it is found on its host, and what an operation does there."""

from hashlib import sha256
from typing import Any

import pytest
from pyinfra.api import HiddenValue

from sparkwright.common.files import Directory, ManagedFile
from sparkwright.door.gateway.deploy import UNITS, gateway
from tests.makers.door import NO_DOOR, plan
from tests.unit.driven import Driven, fake_host, file_of, placed

ARGUMENTS: dict[str, Any] = {
    "root": "/r",
    "entries": [Directory("/r/gateway"), ManagedFile("/r/gateway/config.json", "x\n")],
    "requirements": "aiohttp==1\n",
    "secrets": {
        "/r/secrets/gateway.key": HiddenValue("sk-s3cret\n"),
        "/r/gateway/door/keys": HiddenValue("0A1B\n"),
    },
    "door": plan(4000, place="gateway"),
    "says": "The gateway answers at http://192.0.2.1:4000/v1.",
}
STATUS = "in service: chat-a"


def on(
    files: dict[str, dict[str, Any]] | None = None,
    units: str = "",
    requirements: str | None = None,
    **found: Any,
) -> Driven:
    """Return a host with these files, with units in this state, and else with nothing."""
    there = placed(files, dict.fromkeys(UNITS, units))
    there["units"]["gateway.service"]["status"] = STATUS
    part = {**NO_DOOR, "installed": "2.8.5-1" if units else None, **found}
    environment = {"requirements": requirements}
    state = {"door": part, "artifacts.environment": environment, "placed": there}
    return fake_host(state=state, root="/r")


def steps(spark: Driven, *words: str) -> list[str]:
    """The commands of a run that have one of these words of pip's or systemctl's, by it."""
    return [
        word
        for script in spark.scripts()
        for word in words
        if f"{word} --quiet" in script or f"systemctl {word} gateway" in script
    ]


def test_a_first_run_ends_with_a_started_gateway() -> None:
    spark = on()
    assert spark.predicts_change(gateway, **ARGUMENTS)
    spark.run(gateway, **ARGUMENTS)
    scripts = spark.scripts()
    assert steps(spark, "pip install", "enable", "start") == ["pip install", "enable", "start"]
    assert not any("s3cret" in script for script in scripts)
    secrets = [stdin for _, stdin in spark.commands if stdin]
    assert secrets == ["sk-s3cret\n", "0A1B\n"]
    # Its door's files are read by haproxy before anything stops.
    (start,) = (script for script in scripts if "systemctl start" in script)
    assert start.index("haproxy -c") < start.index("systemctl stop gateway-door.service")


def current(changed: int = 0) -> dict[str, dict[str, Any]]:
    """Return the files of ARGUMENTS as they are after a run."""
    secrets = {path: file_of(each.unmask(), "600") for path, each in ARGUMENTS["secrets"].items()}
    folder = {"kind": "directory", "user": "root", "group": "root", "mode": "755"}
    files = {"/r/gateway": folder, "/r/gateway/config.json": file_of("x\n"), **secrets}
    return {path: {**state, "changed": changed} for path, state in files.items()}


@pytest.mark.parametrize(
    ("units", "changed", "done"),
    [
        ("loaded active enabled 1000", 1000, []),
        ("loaded active enabled 1000", 1001, ["start"]),
        ("loaded enabled", 0, ["start"]),
        ("loaded active 1000", 0, ["enable"]),
    ],
)
def test_a_gateway_is_started_again_if_it_is_older_than_its_files(
    units: str, changed: int, done: list[str]
) -> None:
    digest = sha256(ARGUMENTS["requirements"].encode()).hexdigest()
    spark = on(current(changed), units, digest)
    assert spark.predicts_change(gateway, **ARGUMENTS) == bool(done)
    spark.run(gateway, **ARGUMENTS)
    assert steps(spark, "enable", "start") == done


def test_without_tls_no_certificate_and_key_stay() -> None:
    path = "/r/gateway/door/certificate.pem"
    spark = on({path: file_of("a key", "600")})
    secrets = {**ARGUMENTS["secrets"], path: None}
    spark.run(gateway, **{**ARGUMENTS, "secrets": secrets})
    scripts = spark.scripts()
    (start,) = (index for index, each in enumerate(scripts) if "systemctl start" in each)
    assert scripts.index(f"rm -f {path} {path}.new") < start


def test_a_taken_port_is_told_before_anything_changes() -> None:
    spark = on(taken=["nginx (pid 7)"])
    assert spark.run(gateway, **ARGUMENTS).did_error()
    (script,) = spark.scripts()
    assert "port 4000 is taken by nginx (pid 7). Stop it, or give the gateway another" in script
