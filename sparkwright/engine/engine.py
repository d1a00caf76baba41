"""The engines of a Spark, read by one shell script, and their differences from the declared."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparkwright.common.difference import Difference
from sparkwright.common.host_output import MARK, Sections, read_json, sections
from sparkwright.common.placed import SYSTEMD, seat_of, socket_folder
from sparkwright.declared.recipe import questions
from sparkwright.declared.recipe.recipe import Answers
from sparkwright.engine.metrics import ask

# Which releases are for the second seat of a Spark, and which: a line of unit.json each.
_SEAT = re.compile(r"""([^/]+)/unit\.json: +"seat": "([A-Za-z0-9_.-]+)",?""")

_PROPERTIES = "Id,ActiveState,NRestarts,NeedDaemonReload,Job,StatusText"
_AT_WORK = "active,activating,deactivating"
# The unit by which a head offers files to its worker.
SHARE = "fabric-share.socket"

# A loaded engine answers one token in well under a second; under full load it queues.
COMPLETION_DEADLINE = 60


@dataclass(frozen=True)
class EngineUnit:
    """One instance of `vllm@.service`; `status` is what its supervisor said last.

    While it is `starting`, systemd has a job for it, which may wait for Docker. Between two of
    systemd's restarts there is none.
    """

    release: str
    active: str
    restarts: int
    enabled: bool
    needs_reload: bool
    starting: bool
    status: str

    @property
    def ended(self) -> bool:
        """Tell whether it neither runs nor is about to, by a start or a restart of systemd's."""
        return self.active in ("inactive", "failed") and not self.starting

    @property
    def stopped(self) -> bool:
        """Tell whether it has ended and does not start at boot."""
        return self.ended and not self.enabled


@dataclass(frozen=True)
class EngineState:
    """The engines of a Spark; of one of its two replicas, where it serves two.

    Attributes:
        current: the release that the `current` link names; None without one.
        units: every instance that is loaded or enabled, by release.
        shares: the Spark offers its weights to a worker.
        switches: the releases to which a switch is under way.
        failed: the units of engines and switches that have failed.
        preferred: the release to which the door sends requests; None if it holds them back, knows
            none, or was not read.
        models, completion: the engine's answers, the latter to `questions.shortest`; None if it
            was not asked.
        elsewhere: the releases of the Spark's other seat that run, boot, or are switched to.
    """

    current: str | None
    units: dict[str, EngineUnit]
    shares: bool
    switches: tuple[str, ...]
    failed: tuple[str, ...]
    preferred: str | None
    models: tuple[str, ...] | None
    completion: str | None
    elsewhere: frozenset[str] = frozenset()


def state_script(root: str, enabled_or: str = "") -> str:
    """Return the POSIX shell script that reads the state of all engines of a seat.

    Args:
        enabled_or: a release whose unit is listed in any case.
    """
    named = shlex.quote(f"vllm@{enabled_or}.service") if enabled_or else ""
    return f"""
enabled=$(find {SYSTEMD}/multi-user.target.wants -name 'vllm@*' -printf '%f\\n')
units=$(systemctl list-units --plain --no-legend --state={_AT_WORK},failed 'switch@*' 'vllm@*')
{seats_script(root, enabled_or)}
echo {MARK}current; readlink {shlex.quote(root)}/current
echo {MARK}enabled; echo "$enabled"
echo {MARK}share; [ ! -e {SYSTEMD}/sockets.target.wants/{SHARE} ] || echo enabled
echo {MARK}switches; echo "$units" | awk '/^switch@/ && $3 != "failed" {{print $1}}'
echo {MARK}failed; echo "$units" | awk '$3 == "failed" {{print $1}}'
echo {MARK}door; cat {shlex.quote(root)}/door/choice.map 2>/dev/null
echo {MARK}units
systemctl show --property={_PROPERTIES} {named} $enabled 'vllm@*.service'
true"""


def engine_script(*, root: str, release: str, model: str, answers: Answers = "chat") -> str:
    """Return the POSIX shell script that reads the state of all engines, and queries one.

    It is asked for one token, or for the numbers of one text, as its recipe answers.
    """
    unit = shlex.quote(f"vllm@{release}.service")
    question = questions.shortest(answers, model)
    folder = shlex.quote(socket_folder(root, release))
    posted = (
        f"--header 'Content-Type: application/json' --data {shlex.quote(json.dumps(question.body))}"
    )
    # The engine is asked while systemd is; the pipe keeps its answers until their turn.
    return f"""{{
if systemctl is-active --quiet {unit}; then
  echo {MARK}models
  {ask(folder, "/v1/models", "--silent --show-error --max-time 10")} 2>&1; echo
  echo {MARK}completion
  {ask(folder, question.path, f"--silent --show-error --max-time {COMPLETION_DEADLINE} {posted}")} \
    2>&1; echo
fi
}} </dev/null | {{
{state_script(root, release)}
cat
}}"""


def parse_engines(output: Iterable[str]) -> EngineState:
    """Return the state that the script's output lines describe."""
    found = sections(output)
    is_own = own_releases(found)
    enabled = set(found["enabled"])
    units: dict[str, EngineUnit] = {}
    switches = [_release(unit) for unit in found.get("switches", ()) if unit]
    elsewhere = {release for release in switches if not is_own(release)}
    for block in "\n".join(found["units"]).split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values:
            unit = _unit(values, enabled)
            if is_own(unit.release):
                units[unit.release] = unit
            elif not unit.stopped:
                elsewhere.add(unit.release)
    link = found["current"]
    return EngineState(
        current=link[0].rsplit("/", 1)[-1] if link else None,
        units=units,
        shares=found["share"] == ["enabled"],
        switches=tuple(filter(is_own, switches)),
        failed=tuple(unit for unit in found.get("failed", ()) if unit and is_own(_release(unit))),
        preferred=_preferred(found.get("door", ())),
        models=_models("\n".join(found["models"])) if "models" in found else None,
        completion="\n".join(found["completion"]).strip() if "completion" in found else None,
        elsewhere=frozenset(elsewhere),
    )


def seats_script(root: str, release: str = "") -> str:
    """Return the part of a POSIX shell script that reads which releases are for which seat.

    A release that is named is for this seat, also before it is laid down.
    """
    seat = seat_of(root)
    own = shlex.quote(f'{release}/unit.json: "seat": "{seat}"') if release and seat else "''"
    return f"""\
echo {MARK}seat; echo {shlex.quote(seat)}
echo {MARK}seats; echo {own}; grep -Hs '^  "seat": ' {shlex.quote(root)}/releases/*/unit.json"""


def own_releases(found: Sections) -> Callable[[str], bool]:
    """Return a test for the releases of the seat that `seats_script` has read."""
    name = "".join(found.get("seat", ()))
    matches = map(_SEAT.search, found.get("seats", ()))
    known = {match[1]: match[2] for match in matches if match}
    return lambda release: known.get(release, "") == name


def _release(unit: str) -> str:
    return unit.partition("@")[2].removesuffix(".service")


def problem(
    state: EngineState, served_names: Sequence[str], answers: Answers = "chat"
) -> str | None:
    """Return why an active engine does not serve as declared; None if it does.

    A list of models or a status code proves little: one token, vector or score must come back.
    """
    missing = [name for name in served_names if name not in (state.models or ())]
    if missing:
        return f"/v1/models does not list {', '.join(missing)} (it lists {state.models})"
    return questions.problem(answers, state.completion or "")


def _unit(values: dict[str, str], enabled: set[str]) -> EngineUnit:
    return EngineUnit(
        release=_release(values["Id"]),
        active=values["ActiveState"],
        restarts=int(values["NRestarts"] or 0),
        enabled=values["Id"] in enabled,
        needs_reload=values["NeedDaemonReload"] == "yes",
        starting=bool(values.get("Job")),
        status=values.get("StatusText", ""),
    )


def _preferred(lines: Iterable[str]) -> str | None:
    """Return the preferred release by the lines of the door's file: `first RELEASE`, `hold yes`."""
    choice = dict(line.split() for line in lines if line.count(" ") == 1)
    return choice.get("first") if choice.get("hold") == "no" else None


def _models(text: str) -> tuple[str, ...]:
    try:
        return tuple(entry["id"] for entry in read_json(text)["data"])
    except (ValueError, KeyError, TypeError):
        return ()


def engine_differences(
    state: EngineState, release: str | None, door: bool = False
) -> Iterator[Difference]:
    """Yield the differences of a Spark's engines from what is declared.

    Args:
        release: the one that should serve; None on an idle Spark.
        door: there is a door before it.
    """
    if state.current != release:
        yield Difference("current release", release or "none", state.current or "none")
    for name, unit in state.units.items():
        if name == release:
            if unit.active != "active":
                yield Difference(f"vllm@{name}.service", "active", unit.active)
            if not unit.enabled:
                yield Difference(f"vllm@{name}.service", "enabled", "not enabled")
        elif not unit.stopped:
            boots = " and boots" if unit.enabled else ""
            yield Difference(f"vllm@{name}.service", "off", f"{unit.active}{boots}")
        if unit.needs_reload:
            yield Difference(f"vllm@{name}.service", "as in its file", "an older version")
    for name in state.failed:
        if name != f"vllm@{release}.service":
            yield Difference(name, "not failed", "failed")
    for name in state.switches:
        yield Difference("switch", "none under way", f"one to {name}")
    if door and state.preferred != release:
        yield Difference("engine behind the door", f"{release}", state.preferred or "none")
