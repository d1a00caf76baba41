"""The engines of a Spark, read by one shell script; to go with its last users, in insight."""

import re
import shlex
from collections.abc import Callable, Iterable

from sparkwright.common.host_output import MARK, Sections, read_json, sections
from sparkwright.common.placed import SYSTEMD, seat_of
from sparkwright.engine.state import SHARE, EngineState, EngineUnit

# Which releases are for the second seat of a Spark, and which: a line of unit.json each.
_SEAT = re.compile(r"""([^/]+)/unit\.json: +"seat": "([A-Za-z0-9_.-]+)",?""")

_PROPERTIES = "Id,ActiveState,NRestarts,NeedDaemonReload,Job,StatusText"
_AT_WORK = "active,activating,deactivating"


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


def parse_engines(output: Iterable[str]) -> EngineState:
    """Return the state that the script's output lines describe."""
    found = sections(output)
    is_own = own_releases(found)
    enabled = set(found["enabled"])
    units: dict[str, EngineUnit] = {}
    switches = [_release(unit) for unit in found.get("switches", ()) if unit]
    for block in "\n".join(found["units"]).split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values:
            unit = _unit(values, enabled)
            if is_own(unit.release):
                units[unit.release] = unit
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


def _unit(values: dict[str, str], enabled: set[str]) -> EngineUnit:
    return EngineUnit(
        release=_release(values["Id"]),
        active=values["ActiveState"],
        restarts=int(values["NRestarts"] or 0),
        enabled=values["Id"] in enabled,
        outdated=values["NeedDaemonReload"] == "yes",
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
