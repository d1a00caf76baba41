"""Jobs: the state of the unit of each, and what it last reported."""

import json
from collections.abc import Sequence
from typing import Any

from host.artifacts.weights.record import REPORT, read_json_below
from host.state.placed import unit_states
from host.state.readers import text
from host.state.state import MOST

_MOST = 64 * 1024


def read(root: str, jobs: Sequence[str]) -> dict[str, Any]:
    """Return the jobs by the names of their units, such as "weights@qwen36-nvfp4"."""
    units = unit_states([f"{job}.service" for job in jobs])
    return {
        "jobs": {
            job: {
                "active": units.get(f"{job}.service", {}).get("active", ""),
                "progress": _progress(root, job),
            }
            for job in jobs
        }
    }


def benchmark(root: str) -> dict[str, Any]:
    """Return the result of the last benchmark; None while there is none."""
    found = text(f"{root}/benchmarks/latest.json", MOST)
    return {"answer": None if found is None else json.loads(found)}


def _progress(root: str, job: str) -> Any:
    kind, _, name = job.partition("@")
    report = f"{name}/{REPORT}" if kind == "weights" else f"jobs/{job}.json"
    try:
        # The user who fetches weights can lay links in their folder.
        return read_json_below(root, report, _MOST)
    except OSError:
        return None
