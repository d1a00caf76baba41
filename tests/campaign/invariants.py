"""What must hold when a scene is over, and what clients may have seen, whatever has happened."""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sparkwright.door.keys import api_keys
from sparkwright.plan.memory.plan import STANDBY
from tests.campaign.acts import Stage
from tests.campaign.plan import BROKEN, REFUSED, UNREACHABLE, WHOLE
from tests.driver.listing import places
from tests.driver.load import BROKE_OFF, Answer
from tests.driver.product import TOKEN, pyinfra
from tests.driver.sparks import current
from tests.lab.spark import Handle
from tests.lab.state import FLEET, STORAGE

# Beyond all that may be seen.
NEVER = UNREACHABLE + 1
_SEEN = {WHOLE: "whole answers", REFUSED: "503", BROKEN: "broken answers", UNREACHABLE: "anything"}
_WANTS = "etc/systemd/system/multi-user.target.wants"
_TOKEN_FILE = "/opt/qwen36/secrets/hf-token"
# Each line is something that is left over, but for those that begin with "container".
_LOOK = r"""
cd /opt/qwen36
docker ps --all --format 'container {{.Names}}'
find . -path ./hf -prune -o -path ./cache -prune -o \( -name '*.new' -o -name '*.partial' -o \
  -name .sparkwright-partial -o -name .sparkwright-set-aside -o \
  -name switch.json \) -print
release=$(basename $(readlink current))
find state \( -name 'running@*' -o -name 'standby@*' \) ! -name "*@$release"
[ -e state/standby@$release ] || docker ps --all --format '{{.Names}} without a supervisor' | \
  grep -e -standby
find /etc/systemd/system -name '.vllm@*'
systemctl list-units --plain --no-legend --state=active,activating,deactivating,failed \
  'switch@*' 'weights@*' 'image@*' 'image-build@*' image-copy.service
systemctl list-units --plain --no-legend --state=failed 'vllm@*' 'door*' 'fabric*' 'docker*'
lock=/run/sparkwright/lock
[ ! -e $lock ] || flock --nonblock $lock true || echo 'the lock of a run'
true"""
# Of each container the KiB that are its own, and the bytes that a switch was told it takes.
_TAKEN = r"""
cd /opt/qwen36/manifests
for name in $(docker ps --format '{{.Names}}'); do
  rollups=$(docker top $name -o pid | awk 'NR > 1 {print "/proc/" $1 "/smaps_rollup"}')
  own=$(cat $rollups 2>/dev/null | awk '/^Pss:/ {own += $2} END {print own + 0}')
  echo $name $own $(sed 's/.*"engine": \([0-9]*\).*/\1/' switch@${name#vllm-}.json 2>/dev/null)
done"""


def leftovers(stage: Stage) -> Iterator[str]:
    for spark in stage.sparks:
        release = current(spark)
        lines = _as_root(spark, _LOOK)
        engine = f"container vllm-{release}"
        expected = (engine, f"{engine}-standby")
        yield from (f"{spark.name}: left over: {line}" for line in lines if line not in expected)
        if engine not in lines:
            yield f"{spark.name}: no {engine}"


def beyond_plan(stage: Stage) -> Iterator[str]:
    """An engine, and a standby that waits, take no more than the plan has for each."""
    for spark in stage.sparks:
        for line in _as_root(spark, _TAKEN):
            name, own, *engine = line.split()
            waits = name.endswith("-standby")
            planned = STANDBY if waits else int(engine[0]) if engine else 0
            # A standby may just begin, or end.
            if not (0 if waits else 1) <= int(own) <= planned // 1024:
                yield f"{spark.name}: {name} takes {own} KiB; expected {planned} bytes at most"


def wrong_release(stage: Stage) -> Iterator[str]:
    for spark in stage.sparks:
        release = current(spark)
        if not release.startswith(f"lab-{stage.declared.removeprefix('lab-')}-"):
            yield f"{spark.name}: found {release}; expected {stage.declared}"
        boots = spark.run(f"ls /{_WANTS} | grep vllm@", check=False).stdout.split()
        if boots != [f"vllm@{release}.service"]:
            yield f"{spark.name}: found {boots} to boot; expected {release} alone"


def drift(stage: Stage) -> Iterator[str]:
    look = pyinfra("deploys/drift.py", "--data", "json=-")
    if look.status:
        yield f"drift ended with {look.status}: {_differences(look.output)}"


def second_run(stage: Stage) -> Iterator[str]:
    for deploy in stage.deploys:
        run = pyinfra(deploy)
        if run.status or run.changed:
            changed = ", ".join(sorted(run.changed)) or "nothing"
            yield f"another run of {deploy} ended with {run.status}, and changed {changed}"


def secrets(stage: Stage, outputs: Sequence[str]) -> Iterator[str]:
    (key,) = api_keys(FLEET)
    if any(secret in output for output in outputs for secret in (TOKEN, key)):
        yield "a run has printed a secret"
    for spark in stage.sparks:
        found = places(spark, TOKEN, key)
        files = found.get("files", [])
        if _TOKEN_FILE in files:
            files.remove(_TOKEN_FILE)
        else:
            yield f"{spark.name}: no secret was found even in {_TOKEN_FILE}"
        for place, lines in found.items():
            for line in lines:
                hidden = line.replace(key, "KEY").replace(TOKEN, "TOKEN")
                yield f"{spark.name}: {place}: a secret in {hidden[:300]}"


@dataclass
class Window:
    """A time in which clients of a Spark, or of all, may see more than whole answers."""

    began: float
    level: int
    spark: str = ""
    ended: float = float("inf")


def level(problem: str | None) -> int:
    """Return how bad an answer was.

    A server that ends in the middle of a request is a 500 or a 502 to those to whom it had said
    nothing yet.
    """
    if problem is None:
        return WHOLE
    if problem.startswith("503"):
        return REFUSED
    if problem.startswith((BROKE_OFF, "ChunkedEncodingError", "500", "502", "504")):
        return BROKEN
    return NEVER if problem[:3].isdigit() else UNREACHABLE


def objections(
    spark: str, answers: Iterable[Answer], windows: Iterable[Window], *, gateway: bool = False
) -> Iterator[str]:
    for answer in answers:
        seen = level(answer.problem)
        allowed = WHOLE
        for window in windows:
            if answer.began <= window.ended and answer.ended >= window.began:
                if window.spark in ("", spark):
                    allowed = max(allowed, window.level)
                elif gateway and window.level >= BROKEN:
                    allowed = max(allowed, BROKEN)
        if seen > allowed:
            yield (
                f"a client of {'the gateway' if gateway else spark} saw {answer.problem!r} after "
                f"{answer.ended - answer.began:.1f} s, where {_SEEN[allowed]} were to be expected"
            )


@contextmanager
def one_boots(sparks: Sequence[Handle]) -> Iterator[list[str]]:
    """Yield what is wrong with what would boot, always one from the first release on, and waits."""
    problems: list[str] = []
    stop = threading.Event()

    def watch(spark: Handle) -> None:
        upper, least = STORAGE / spark.name / "upper", 0
        folder, state = upper / _WANTS, upper / "opt/qwen36/state"

        def right(boots: set[str]) -> bool:
            return least <= len(boots) <= 1

        while not stop.wait(0.05):
            # A listing is no snapshot: what is so four times is so.
            boots = next(filter(right, (_enabled(folder) for _ in range(3))), _enabled(folder))
            if not right(boots):
                problems.append(f"{spark.name}: for a moment {sorted(boots) or 'nothing'} boots")
                return
            least = len(boots)
            if min(len(wait := _waiting(state)) for _ in range(3)) > 1:
                problems.append(f"{spark.name}: for a moment {sorted(wait)} wait")
                return

    threads = [threading.Thread(target=watch, args=[spark]) for spark in sparks]
    for thread in threads:
        thread.start()
    try:
        yield problems
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _enabled(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("vllm@*")} if folder.exists() else set()


def _waiting(state: Path) -> set[str]:
    """Return the releases whose standby has a supervisor, as far as files tell."""
    return {path.parent.name for path in state.glob("standby@*/alive")}


def _differences(output: str) -> str:
    try:
        look = json.loads(output[output.index("{") :])
        return json.dumps(look["differences"] + look["not_read"])
    except (ValueError, KeyError):
        return output[-2000:]


def _as_root(spark: Handle, script: str) -> list[str]:
    return spark.run("sudo sh -s", stdin=script).stdout.splitlines()
