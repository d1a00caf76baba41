"""The content of an owner's record: versions and figures, by which others judge their own Sparks.

Nothing in it is an owner's: what a machine says of itself in another form than these, which no
name, address, serial number or key has, is left out.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from sparkwright.common.local_file import read_text
from sparkwright.insight.doctor.checkup import Checkup

_VERSION = r"\d{1,5}(\.\d{1,5}){1,2}"
FORMS = {
    "product": "[A-Z][A-Za-z0-9_ ()+-]{1,40}",
    "firmware": rf"{_VERSION}|[0-9A-Z.-]{{0,20}}[A-Z_][0-9A-Z._-]{{0,20}}",
    "system": "(Ubuntu|Debian GNU/Linux) [0-9.]{1,8}( LTS)?",
    "DGX OS": _VERSION,
    "kernel": rf"{_VERSION}(-\d{{1,5}})?(-(nvidia|generic|hwe|oem|cloud|64k|amd64|arm64)){{0,3}}",
    "driver": _VERSION,
    "Docker": _VERSION,
}
SPEEDS = ("tok_s", "total_tok_s")
# Bytes of a benchmark's result: one of all workloads has 60,000.
_MOST_BYTES = 2**21


def machine_of(checkup: Checkup) -> dict[str, str]:
    """Return what a Spark is, as far as it says so in these forms."""
    said: Mapping[str, str | None] = {
        **checkup.system,
        "DGX OS": checkup.system.get("DGX OS, updated to") or checkup.system.get("DGX OS"),
        "kernel": checkup.kernel.release,
        "driver": checkup.driver,
        "Docker": checkup.docker,
    }
    found = {name: said.get(name) or "" for name in FORMS}
    return {name: text for name, text in found.items() if re.fullmatch(FORMS[name], text, re.A)}


def speeds_of(results: Path, replica: str, release: str) -> dict[str, dict[str, float]]:
    """Return the speeds of a release by its newest benchmark; none where there is none."""
    for path in sorted(results.glob(f"{replica}-*.json"), reverse=True):
        known = json.loads(read_text(path, "a result of the benchmark", _MOST_BYTES) or "{}")
        if known.get("about", "").startswith(f"{replica}: {release} "):
            workloads = known["figures"].items()
            found = {name: {k: each[k] for k in SPEEDS if k in each} for name, each in workloads}
            return {name: speeds for name, speeds in found.items() if speeds}
    return {}
