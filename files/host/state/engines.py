"""The engines of a seat: their units, which is to serve, an engine's answers, switches, history."""

import glob
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from host.common import starts
from host.common.seat import laid_down, seat_of, seat_of_release
from host.state.engine_api import ask
from host.state.readers import names, once, run, systemd, text, whole

_SYSTEMD = "/etc/systemd/system"
# Where `stop` masks what a request would start.
_RUNTIME = "/run/systemd/system"
_SHARE = f"{_SYSTEMD}/sockets.target.wants/fabric-share.socket"
_PROPERTIES = (
    *("Id", "ActiveState", "NRestarts", "NeedDaemonReload", "Job", "StatusText"),
    *("ActiveEnterTimestamp", "LoadState"),
)
_AT_WORK = ("active", "activating", "deactivating", "reloading")
# Seconds: a loaded engine answers one token in well under one; under full load it queues.
_ANSWER = 60
# Characters of a line of the log, and lines of one reading.
_LINE, _LINES = 4000, 5000
_CURSOR = "-- cursor: "


def read(
    root: str, release: str = "", path: str = "", body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the engines of a seat, and what a release answers to a request, if it runs.

    Args:
        release: Listed in any case, and this seat's also before it is laid down.
        path: Of the request; "" for none.
    """
    is_own = owner(root, release)
    units = {name: unit for name, unit in engines(release).items() if is_own(name)}
    failed = (unit for unit, each in _units(release).items() if each.get("ActiveState") == "failed")
    models = completion = None
    if path and units.get(release, {}).get("active") == "active":
        models = _models(ask(root, release, "/v1/models"))
        completion = ask(root, release, path, body, _ANSWER).strip()
    return {
        "current": current(root),
        "last": last(root),
        "units": units,
        "shares": os.path.lexists(_SHARE),
        "switches": [*filter(is_own, switches(release))],
        "failed": [unit for unit in failed if is_own(_release(unit))],
        "preferred": _preferred(root),
        "models": models,
        "completion": completion,
    }


def switch(root: str, release: str, since: str = "", cursor: str | None = None) -> dict[str, Any]:
    """Return the course of a switch, what the engine's start took, and its log, after a cursor or
    since "@SECONDS".
    """
    unit = f"switch@{release}.service"
    active = run("systemctl", "show", "--value", "--property=ActiveState", "--", unit).stdout
    report = text(f"{root}/jobs/switch@{release}.json")
    log = ("journalctl", "--quiet", "--output=cat", "--show-cursor", f"--unit=vllm@{release}")
    start = f"--after-cursor={cursor}" if cursor else f"--since={since}"
    lines = run(*log, start).stdout.splitlines() if since else []
    # journalctl adds it: what an engine writes stands before.
    last = lines.pop() if lines and lines[-1].startswith(_CURSOR) else ""
    told = json.loads(report) if report else None
    return {
        "ended": active.strip() in ("inactive", "failed"),
        "report": told,
        "start": starts.served(root, release, told["began"]) if told else None,
        "cursor": last.removeprefix(_CURSOR) or None,
        "lines": [line[:_LINE] for line in lines if line][-_LINES:],
    }


def history(root: str) -> dict[str, Any]:
    """Return the releases as they came to serve, those to come, and those here with their size."""
    there = names(f"{root}/releases")
    return {
        "served": _history(root),
        "current": current(root),
        "installed": {name: len(laid_down(root, name).get("sparks", ())) for name in there},
        "under_way": [*filter(owner(root), switches())],
    }


def last(root: str) -> str | None:
    """Return the release that came to serve last; None where none has."""
    return next(reversed(_history(root)), None)


def _history(root: str) -> list[str]:
    lines = (text(f"{root}/state/history") or "").splitlines()
    return [words[1] for words in map(str.split, lines) if len(words) == 2]


def served(root: str) -> dict[str, Any]:
    """Return what a seat's `current` names, by its release.json; nothing without it."""
    link = f"{root}/current"
    if not os.path.exists(link):
        return {}
    made = json.loads(text(f"{link}/release.json") or "")
    checkpoints = made["checkpoints"].values()
    return {
        "release": os.path.basename(os.readlink(link)),
        "vllm": made["vllm"],
        "pins": [made["image"], *(f"{each['repo']}@{each['commit']}" for each in checkpoints)],
    }


def current(root: str) -> str | None:
    """Return the release that is to serve in a seat; None where there is none."""
    link = f"{root}/current"
    return os.path.basename(os.readlink(link)) if os.path.islink(link) else None


def owner(root: str, release: str = "") -> Callable[[str], bool]:
    """Return a test for the releases that are for the seat of this folder, as `release` is."""
    seat = seat_of(root)
    return lambda name: name == release or seat_of_release(root, name) == seat


def engines(named: str = "") -> dict[str, dict[str, Any]]:
    """Return the engines that systemd knows or boots, by release; `named` in any case."""
    boots = _boots()
    return {
        (release := _release(unit)): {
            "release": release,
            "active": values.get("ActiveState", ""),
            "restarts": int(values.get("NRestarts") or 0),
            "enabled": unit in boots,
            "outdated": values.get("NeedDaemonReload") == "yes",
            "starting": bool(values.get("Job")),
            "status": values.get("StatusText", ""),
            "masked": values.get("LoadState") == "masked",
            "since": whole(values.get("ActiveEnterTimestamp", "")),
        }
        for unit, values in _units(named).items()
        if unit.startswith("vllm@")
    }


def switches(named: str = "") -> list[str]:
    """Return the releases to which a switch is under way, in any seat."""
    return [
        _release(unit)
        for unit, values in _units(named).items()
        if unit.startswith("switch@") and values.get("ActiveState") in _AT_WORK
    ]


def failed_switch(root: str) -> dict[str, Any] | None:
    """Return the last switch of this seat, if it failed."""
    is_own = owner(root)
    reports = {
        path: os.path.basename(path).removeprefix("switch@").removesuffix(".json")
        for path in sorted(glob.glob(f"{root}/jobs/switch@*.json"), key=os.path.getmtime)
    }
    path, release = next((each for each in reversed(reports.items()) if is_own(each[1])), ("", ""))
    report = json.loads(text(path) or "{}") if path else {}
    if report.get("phase") != "failed":
        return None
    return {"release": release, "at": int(os.path.getmtime(path)), "reason": report["message"]}


def _boots() -> list[str]:
    """Return the units of engines that boot."""
    wants = names(f"{_SYSTEMD}/multi-user.target.wants")
    return [name for name in wants if name.startswith("vllm@")]


@once
def _units(named: str) -> dict[str, dict[str, str]]:
    """Return the properties of all instances of vllm@ and switch@; nothing without systemd."""
    # Of a masked one that does not run, systemd tells only who names it.
    masked = (name for name in names(_RUNTIME) if name.startswith("vllm@"))
    known = {*_boots(), *masked, *([f"vllm@{named}.service"] if named else [])}
    found = systemd(_PROPERTIES, (*sorted(known), "vllm@*.service", "switch@*.service"))
    return {each["Id"]: each for each in found if "Id" in each}


def _release(unit: str) -> str:
    return unit.partition("@")[2].removesuffix(".service")


def _preferred(root: str) -> str | None:
    """Return the release to which the door sends requests; None while it holds them back."""
    rows = [row.split() for row in (text(f"{root}/door/choice.map") or "").splitlines()]
    choice = dict(row for row in rows if len(row) == 2)
    return choice.get("first") if choice.get("hold") == "no" else None


def _models(answer: str) -> list[str]:
    try:
        return [str(each["id"]) for each in json.loads(answer)["data"]]
    except (ValueError, KeyError, TypeError):
        return []
