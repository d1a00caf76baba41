"""The status of a replica, its running containers, and the result of a benchmark."""

import json
import os
import re
import time
from collections.abc import Sequence
from typing import Any

from host.common import starts
from host.common.seat import SEATS, seat_of
from host.state import docker, gpu
from host.state.engine_api import load
from host.state.engines import current, engines, last, owner, switches
from host.state.machine import kernel
from host.state.readers import free_bytes, lines, meminfo, run, text, whole, word
from host.state.state import MOST

# Seconds for which the figures of the door, and a hard end, count.
_FRESH, _DAY = 60, 86_400
# Where the loop of turns says how it goes: files/host/engine/turns/DESIGN.md.
_TURNS = "/run/sparkwright"
_TURN = ("phase", "closed", "why", "waiting", "starts", "hits", "refused", "seconds")


def read(root: str, door: str = "door.service") -> dict[str, Any]:
    """Return the status of a seat, whose door has this unit; it needs no rights, takes 1 to 2 s."""
    release, units, is_own = current(root), engines(), owner(root)

    def runs(engine: dict[str, Any]) -> bool:
        return engine["starting"] or engine["active"] not in ("inactive", "failed")

    unit = units.get(release or "")
    memory = meminfo()
    return {
        "last": last(root),
        "release": release,
        **_contents(root),
        "unit": unit,
        "starts": starts.alike(root, release) if release else [],
        "others": sorted(
            name for name, each in units.items() if name != release and is_own(name) and runs(each)
        ),
        "switches": [*filter(is_own, switches())],
        "load": load(root, release) if release and unit and unit["active"] == "active" else None,
        "gpu": gpu.read()["gpu"],
        "clock_limit": whole(word(f"{root}/state/gpu-clock")) or None,
        "memory_total": memory["MemTotal"],
        "memory_available": memory["MemAvailable"],
        "disk_free": free_bytes(root),
        "door": run("systemctl", "is-active", door).stdout.strip() or "unknown",
        "held": _held(root),
        "standby": os.path.exists(f"{root}/state/standby@{release}/waits"),
        "down": hard_down(root),
        "turn": turn(root),
    }


def turn(root: str) -> dict[str, Any] | None:
    """Return how it goes with a seat whose model requests start; None for any other."""
    try:
        declared = json.loads(text(f"{root}/manifests/turns.json") or "")["replicas"].items()
        own = (
            name for name, each in declared if each["seat"] == seat_of(root) and each["on_demand"]
        )
        said = json.loads(text(f"{_TURNS}/turns.json") or "")[next(own)]
        return {key: said[key] for key in _TURN}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None


def hard_down(root: str) -> dict[str, Any] | None:
    """Return what a Spark's flight recorder says of its last hard end, of a day; else None."""
    try:
        down = json.loads(text(f"{root.partition(f'/{SEATS}/')[0]}/state/last-down.json") or "")
        found: dict[str, Any] = {name: int(down[name]) for name in ("at", "back")}
        found |= {name: str(down[name])[:400] for name in ("cause", "said")}
        found["lines"] = [str(each)[:200] for each in down["lines"][:40]]
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return found if abs(time.time() - found["back"]) < _DAY else None


def _contents(root: str) -> dict[str, Any]:
    """Return the recipe of the release that is to serve, and the names by which it is asked for."""
    try:
        content = json.loads(text(f"{root}/current/release.json") or "")
        return {"recipe": str(content["recipe"]), "models": content.get("served_names", [])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"recipe": None, "models": []}


def _held(root: str) -> int | None:
    """Return how many requests wait at the door; None if unknown."""
    # The door itself tells only root; a timer writes this file four times a minute.
    path, seat = f"{root}/metrics/spark.prom", seat_of(root)
    labels = 'spark="[^"]*"' + (f',seat="{seat}"' if seat else "")
    sample = rf"^spark_door_requests_waiting{{{labels}}} (\d+)$"
    try:
        if time.time() - os.stat(path).st_mtime > _FRESH:
            return None
        found = re.search(sample, text(path) or "", re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def running(root: str, images: Sequence[str] = ()) -> dict[str, Any]:
    """Return what runs, and the image of the declared release by its names."""
    found = [docker.get(f"/containers/{each['Id']}/json") for each in docker.engine_containers()]
    ours = (text(f"{root}/state/held") or "").split()
    return {
        "containers": {
            config["Labels"][docker.LABEL]: {
                "image": container["Image"],
                "arguments": config["Cmd"] or [],
                "environment": config["Env"] or [],
            }
            # One that has ended meanwhile is there no more.
            for container in filter(None, found)
            for config in [container["Config"]]
        },
        "image": docker.image_id(images),
        "held": [each for each in lines("apt-mark", "showhold") if each not in ours],
        "kernel": kernel(),
        "gpu": gpu.read()["gpu"],
        "inside": nvidia_smi(root),
    }


def nvidia_smi(root: str) -> str:
    """Return what nvidia-smi says in the container of a seat's engine; "" where none runs."""
    release = current(root)
    if release is None or engines().get(release, {}).get("active") != "active":
        return ""
    done = run("docker", "exec", f"vllm-{release}", "nvidia-smi", "--list-gpus")
    return " ".join(f"{done.stdout} {done.stderr}".split())


def benchmark(root: str) -> dict[str, Any]:
    """Return the result of the last benchmark; None while there is none."""
    found = text(f"{root}/benchmarks/latest.json", MOST)
    return {"answer": None if found is None else json.loads(found)}
