"""The gateway as it is found on its host, and what an operation does there."""

from typing import Any

from pyinfra.api import HiddenValue

from sparkwright.common.files import Directory, ManagedFile
from sparkwright.gateway.facts import GatewayState, GatewayStates
from sparkwright.gateway.operations import gateway
from tests.makers.door import plan
from tests.unit.driven import fake_host, said_of_file

OUTPUT = """\
installed /usr/sbin/haproxy
stray disabled inactive
active active active active
enabled enabled enabled enabled
started 100
process 812
started 101
process 813
process 814
changed 99
status in service: chat-a
socket LISTEN 0 2048 0.0.0.0:4000 0.0.0.0:* users:(("haproxy",pid=814,fd=9))
"""


def test_the_state_of_a_gateway() -> None:
    found = GatewayStates().process(OUTPUT.splitlines())
    assert found == GatewayState(
        installed=True,
        stray=False,
        active=True,
        enabled=True,
        outdated=False,
        holder=None,
        status="in service: chat-a",
    )
    other = OUTPUT.replace('"haproxy",pid=814', '"nginx",pid=7').replace(
        "changed 99", "changed 101"
    )
    found = GatewayStates().process(other.splitlines())
    assert (found.outdated, found.holder) == (True, "nginx (process 7)")
    # One of an earlier version had no door: it listened itself.
    earlier = OUTPUT.replace("active active active active", "active inactive active inactive")
    earlier = earlier.replace('"haproxy",pid=814', '"python",pid=812').replace(" enabled", "", 1)
    found = GatewayStates().process(earlier.splitlines())
    assert (found.active, found.enabled, found.holder) == (False, False, None)


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
ABSENT = """\
installed \

stray
active inactive inactive inactive
enabled not-found not-found not-found
started 0
started 0
changed 0
status \
"""


def test_a_first_run_ends_with_a_started_gateway() -> None:
    spark = fake_host({"ss --no-header": ABSENT}, root="/r")
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
    spark = fake_host({"ss --no-header": ABSENT, f"set -- {path}": there}, root="/r")
    secrets = {**ARGUMENTS["secrets"], path: None}
    spark.run(gateway, **{**ARGUMENTS, "secrets": secrets})
    scripts = spark.scripts()
    (start,) = (index for index, each in enumerate(scripts) if "systemctl start" in each)
    assert scripts.index(f"rm -f {path} {path}.new") < start


def test_a_taken_port_is_told_before_anything_changes() -> None:
    taken = f'{ABSENT}\nsocket LISTEN 0 9 *:4000 *:* users:(("nginx",pid=7,fd=6))\n'
    spark = fake_host({"ss --no-header": taken}, root="/r")
    assert spark.run(gateway, **ARGUMENTS).did_error()
    assert "Port 4000 is taken by nginx (process 7)" in spark.scripts()[-1]
    assert len(spark.commands) == 2
