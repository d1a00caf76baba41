"""The release that is to serve: what it requires, its standby, its start, and its trial."""

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from host.common.log import log
from host.engine.container import fabric_environment, netdevs
from host.engine.standby import Standby
from host.engine.switch.state import Report
from host.engine.switch.units import Unit, reset_failed, run, systemctl

# Seconds for what an engine's start takes beside the engine: Docker, and the other Sparks.
MARGIN = 120
# Bytes without which nothing is begun: an engine that starts writes state, logs and caches, and
# Docker a container; the previous one needs as much to come back.
DISK = 10**9
DOCKER, CONTAINERD = Path("/var/lib/docker"), Path("/var/lib/containerd")

# Fails in seconds where the engine would take minutes to find no GPU.
_PROOF = ["docker", "run", "--rm", "--pull", "never", "--network", "none"]
_SMI = ("--entrypoint", "nvidia-smi")
_AS_ROOT = ("--user", "0:0", "--env", "PYTHONUSERBASE=/root/.local", "--entrypoint", "sh")
# Prints what vLLM is loaded from and others may not read.
_CLOSED = """\
vllm=$(command -v vllm) && python=$(sed -n '1s/^#! *//p' "$vllm") && exec $python -c '
import os, sys
for path in (sys.argv[1], sys.executable, *filter(os.path.exists, sys.path)):
    for each in (path, os.path.realpath(path)):
        while each != os.path.dirname(each):
            if not os.stat(each).st_mode & (1 if os.path.isdir(each) else 4):
                print(path, "in", each)
                sys.exit()
            each = os.path.dirname(each)
' "$vllm\""""


class Refusal(Exception):
    """The reason why the new release cannot serve, as a sentence."""


def check(root: Path, release: str) -> dict[str, Any]:
    """Return what unit.json says; refuse what could not start.

    Raises:
        Refusal: the disk is full, or weights, image, GPU or a file of the release are not there, or
            the engine's user may not read the image.
    """
    folder = root / "releases" / release
    try:
        unit: dict[str, Any] = json.loads((folder / "unit.json").read_text("utf-8"))
        content = json.loads((folder / "release.json").read_text("utf-8"))
        checkpoints = [each["folder"] for each in content["checkpoints"].values()]
        (folder / "bin/engine").stat()
    except (OSError, ValueError, KeyError) as error:
        raise Refusal(f"releases/{release} is not whole ({error!r})") from None
    if why := lack_of_room(root):
        raise Refusal(f"{why}: free some space, and run again")
    # A second seat has no weights of its own.
    weights = (root / "releases").resolve().parent
    for name in checkpoints:
        if not (weights / name / ".sparkwright.json").exists():
            raise Refusal(f"the weights are gone: {weights}/{name}")
    # What stands before the first folder is made finds user and image, or says that there is none.
    before = (folder / "run").read_text("utf-8").partition("\nmkdir ")[0]
    found = run("sh", "-c", f'{before}\nprintf "%s\\n" "$user" "$image"')
    if found.returncode:
        raise Refusal(found.stderr.strip())
    if Unit(release).ended:
        user, image = found.stdout.split()
        proof = run(*_PROOF, *unit["gpu"], "--user", user, *_SMI, image, "--list-gpus")
        if proof.returncode:
            raise Refusal(f"a container sees no GPU: {proof.stderr.strip()[-500:]}")
        if closed := run(*_PROOF, *unit["gpu"], *_AS_ROOT, image, "-c", _CLOSED).stdout.strip():
            raise Refusal(
                f"in its image only root may read {closed[:500]}; expected everybody, as its "
                "engine runs as a user of its own: give the recipe a mod with "
                "`chmod -R a+rX` of that folder in its run.sh"
            )
    return unit


def lack_of_room(root: Path) -> str:
    """Return which disk is too full for a start; "" if none is."""
    for path in (root, DOCKER, CONTAINERD):
        if path.exists() and (free := shutil.disk_usage(path).free) < DISK:
            return f"{free / 1e9:.1f} GB are free at {path}; expected {DISK / 1e9:.0f}"
    return ""


class Candidate:
    """One release, from its start on.

    Args:
        seconds: within which it starts, beside `MARGIN`.
        pause: waits a moment; ends the switch by an exception where that is asked for.
    """

    def __init__(
        self, release: str, seconds: int, report: Report, pause: Callable[[], None]
    ) -> None:
        self._release = release
        self._seconds = seconds + MARGIN
        self._report = report
        self._pause = pause
        self._invocation = ""

    async def prepare(self, root: Path, unit: dict[str, Any], previous: str) -> None:
        """Have it do all that needs no GPU while the previous one still serves.

        There is one standby at a time. Without one, it starts as ever.
        """
        await Standby(root, previous, unit).remove()
        standby, environment = Standby(root, self._release, unit), dict[str, str]()
        if not standby.fits:
            return
        self._report.say("preparing")
        try:
            if unit["fabric"]:
                links = json.loads(run("ip", "-j", "addr").stdout)
                found = netdevs(links, unit["fabric"][unit["rank"]])
                environment, _ = fabric_environment(found)
        except ValueError as error:
            log(f"there is no standby: {error}")
            return
        await standby.prepare(environment, self._paused)

    async def _paused(self) -> None:
        self._pause()
        await asyncio.sleep(0)

    def start(self) -> None:
        """Return when it serves; refuse one that does not within its budget.

        Its unit is active once its supervisor has had a real token of it.
        """
        deadline = time.monotonic() + self._seconds
        self._report.say("starting", total=self._seconds)
        name = f"vllm@{self._release}.service"
        reset_failed(name)
        # `stop` has masked one on demand: who orders a switch to it starts it.
        systemctl("unmask", "--runtime", "--quiet", name)
        if not Unit(self._release).active:
            systemctl("start", "--no-block", name)
        while not (now := Unit(self._release)).active:
            if not now.starting:
                raise Refusal(f"{name} did not start: {now.why}")
            if time.monotonic() > deadline:
                raise Refusal(f"{name} did not serve within {self._seconds} s: {now.why}")
            self._pause()
        self._invocation = now.invocation

    def watch(self, seconds: int) -> None:
        """Watch it at work for a while; refuse one that ends.

        Its supervisor ends one that hangs, and knows it from one with more work than places, which
        answers nothing for minutes.
        """
        begun = time.monotonic()
        while True:
            now = Unit(self._release)
            if not now.active or now.invocation != self._invocation:
                raise Refusal(
                    f"vllm@{self._release}.service ended after it had begun to serve: {now.why}"
                )
            passed = time.monotonic() - begun
            if passed >= seconds:
                return
            self._report.say("trial", done=int(passed), total=seconds)
            self._pause()
