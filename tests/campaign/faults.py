"""What may befall a Spark, each with what ends it."""

import subprocess
from collections.abc import Callable

from tests.campaign.plan import Strike
from tests.driver import bombs
from tests.lab import hub
from tests.lab.spark import Handle
from tests.lab.state import TWINS

_REPO = "sparkwright/tiny-qwen3.5-moe"
_SHARDS = f"{_REPO}/*.safetensors"
# Processes of an engine that computes: of vLLM's names the kernel keeps 15 letters.
_ENGINE = "'^VLLM::'"
_SUPERVISOR = "'bin/[e]ngine /opt'"
_JOBS = "'sparkwright-host (fetch-weights|(pull|copy|export|build)-image) '"

# What is left free of a full disk, in MiB.
_LEFT = (1, 100, 600)
# Moves the times in which the product has written down its past by so many hours: that is what
# it finds after a step of the clock. The clock itself is the machine's, and is left alone.
_MOVE = """
import json, os, sys, time
from pathlib import Path
hours = 3600 * int(sys.argv[1])
state = Path("/opt/qwen36/state")
downs = state / "hard-downs"
if downs.exists():
    downs.write_text(json.dumps([when + hours for when in json.loads(downs.read_text())]))
for marker in state.glob("running@*"):
    content = json.loads(marker.read_text())
    marker.write_text(json.dumps(content | {"time": content["time"] + hours}))
history = state / "history"
if history.exists():
    lines = [line.split() for line in history.read_text().splitlines()]
    history.write_text("".join(f"{int(when) + hours} {what}\\n" for when, what in lines))
for folder in (state, state.parent / "jobs", state.parent / "manifests"):
    for file in folder.glob("*"):
        when = file.stat().st_mtime + hours
        os.utime(file, (when, when))
"""

# Lets a fault strike; False where there is nothing that it could hit.
Blow = Callable[[Handle, Strike], object]


def _succeeds(spark: Handle, command: str, stdin: str = "") -> bool:
    try:
        return spark.run(command, check=False, timeout=60, stdin=stdin).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _command(command: str) -> Blow:
    return lambda spark, _: _succeeds(spark, f"sudo {command}")


def _engine(number: str) -> Blow:
    """Send a signal to the newest process, which a standby's is, or to the oldest."""
    return lambda spark, strike: _succeeds(
        spark, f"sudo pkill -{number} -{'no'[strike.variant % 2]} {_ENGINE}"
    )


def _power_off(spark: Handle, _: Strike) -> bool:
    on = spark.running()
    spark.power_off()
    return on


def _reboot(spark: Handle, _: Strike) -> None:
    # The connection may end before the command does.
    _succeeds(spark, "sudo systemctl reboot")
    spark.disconnect()


def _break_off(_: Handle, strike: Strike) -> None:
    kind = ("reset", "truncate", "flip", "416")[strike.variant % 4]
    hub.set_fault(kind, times=1 + strike.variant % 2, path=_SHARDS)


def _fill(spark: Handle, strike: Strike) -> bool:
    left = _LEFT[strike.variant % len(_LEFT)] * 1024**2
    free = "$(df --output=avail --block-size=1 /opt | tail -n 1)"
    return _succeeds(spark, f"sudo fallocate -l $(({free} - {left})) /opt/filling")


def _bomb(spark: Handle, strike: Strike) -> bool:
    """Set a bomb off, within bounds: it ends with the fault."""
    if not spark.running():
        return False
    bombs.bound(spark)
    try:
        if strike.fault != "memory bomb":
            return bombs.in_engine(spark, bombs.FORKS if strike.fault == "fork bomb" else bombs.HOG)
        bombs.in_session(spark, bombs.HOG)
    except subprocess.SubprocessError:
        # It boots.
        return False
    return True


def _move_clock(spark: Handle, strike: Strike) -> bool:
    return _succeeds(spark, f"sudo python3 - {(-2, 2)[strike.variant % 2]}", stdin=_MOVE)


BLOWS: dict[str, Blow] = {
    "engine killed": _engine("KILL"),
    "engine hangs": _engine("STOP"),
    "supervisor killed": _command(f"pkill -KILL -n -f {_SUPERVISOR}"),
    "supervisor hangs": _command(f"pkill -STOP -n -f {_SUPERVISOR}"),
    # What earlyoom begins with.
    "memory short": _engine("TERM"),
    **dict.fromkeys(("memory bomb", "engine eats all", "fork bomb"), _bomb),
    "journald frozen": _command("pkill -STOP -x systemd-journal"),
    "Docker restarted": _command("systemctl restart docker"),
    "door killed": _command("pkill -KILL haproxy"),
    "power cut": _power_off,
    "reboot": _reboot,
    "cable cut": lambda spark, _: spark.cable(False),
    "twin cut": lambda spark, strike: spark.cable(False, twin=TWINS[strike.variant % 2]),
    "MTU 1500": lambda spark, _: spark.mtu(1500),
    "LAN loses frames": lambda spark, strike: spark.netem(loss=0.01 + strike.variant / 10_000),
    "LAN slow": lambda spark, strike: spark.netem(delay=0.01 + strike.variant / 5000),
    "hub refuses": lambda _, strike: hub.set_fault(
        ("429", "500")[strike.variant % 2], times=1 + strike.variant % 3
    ),
    "hub breaks off": _break_off,
    "hub slow": lambda _, strike: hub.set_fault("rate", path=_SHARDS, rate=500_000),
    "hub forbids": lambda _, strike: hub.set_fault(
        ("401", "403-gated", "404")[strike.variant % 3], path=f"{_REPO}/*"
    ),
    "disk full": _fill,
    "clock moved": _move_clock,
    "job killed": _command(f"pkill -KILL -n -f {_JOBS}"),
    "switch killed": _command("pkill -KILL -n -f 'sparkwright-[h]ost switch'"),
}

# What ends a fault that lasts.
ENDS: dict[str, Callable[[Handle], object]] = {
    "power cut": Handle.power_on,
    **dict.fromkeys(("memory bomb", "engine eats all", "fork bomb"), bombs.end),
    "cable cut": Handle.cable,
    "twin cut": Handle.cable,
    "MTU 1500": Handle.mtu,
    "LAN loses frames": Handle.netem,
    "LAN slow": Handle.netem,
    "hub slow": lambda _: hub.clear_faults(),
    "hub forbids": lambda _: hub.clear_faults(),
    "disk full": lambda spark: spark.run("sudo rm /opt/filling"),
}
