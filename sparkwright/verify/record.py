"""Records: what the Sparks of a replica have proved, in a form that anybody may read.

Nothing in one is its owner's. Its keys are those of these models, and each value has a form that
no name, address, serial number or key has: what a machine says in another form is left out.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError

from sparkwright.common import yaml
from sparkwright.common.local_file import read_text
from sparkwright.common.schema import Model, satisfying
from sparkwright.declared.recipe.workloads import EXPECTED
from sparkwright.insight.doctor.checkup import Checkup

_HEADER = """\
# What `sparkwright verify` has proved: versions and figures, and no name, address or key. If others
# may know it, send it to Sparkwright by an issue of the form "A record": docs/recipes.md counts it.
"""
_VERSION = r"[0-9]{1,5}(\.[0-9]{1,5}){1,2}"
_KERNEL = rf"{_VERSION}(-[0-9]{{1,5}})?(-(nvidia|generic|hwe|oem|cloud|64k|amd64|arm64))*"
_NAME = "[A-Za-z0-9][A-Za-z0-9_.-]*"
# Bytes of a benchmark's result: one of all workloads has 60,000.
_MOST_BYTES = 2**21


def _text(form: str, example: str, **more: Any) -> Any:
    """Return the field of a text of a form."""
    about = f"text such as {example}"
    return Field(max_length=200, pattern=f"^({form})$", description=about, **more)


class Machine(Model):
    """What one Spark is, as far as it says so in the usual form."""

    product: str | None = _text("[A-Z][A-Za-z0-9_ ()+-]{1,40}", "NVIDIA_DGX_Spark", default=None)
    firmware: str | None = _text(
        f"{_VERSION}|[0-9A-Z.-]*[A-Z_][0-9A-Z._-]*", "5.36_0ACUM018", default=None
    )
    system: str | None = _text("(Ubuntu|Debian GNU/Linux) [0-9.]+( LTS)?", "Ubuntu", default=None)
    dgx_os: str | None = _text(_VERSION, "7.2.3", default=None)
    kernel: str | None = _text(_KERNEL, "6.17.0-1032-nvidia", default=None)
    driver: str | None = _text(_VERSION, "580.95.05", default=None)
    docker: str | None = _text(_VERSION, "28.3.3", default=None)

    @classmethod
    def of(cls, checkup: Checkup) -> "Machine":
        """Return what a checkup says of a Spark."""
        said = {
            **checkup.system,
            "dgx_os": checkup.system.get("DGX OS, updated to") or checkup.system.get("DGX OS"),
            "kernel": checkup.kernel.release,
            "driver": checkup.driver,
            "docker": checkup.docker,
        }
        kept: dict[str, Any] = {}
        for name in cls.model_fields:
            with suppress(ValidationError):
                kept |= cls.model_validate({name: said.get(name)}).model_dump(exclude_none=True)
        return cls(**kept)


_Workload = Annotated[str, satisfying(EXPECTED.__contains__, "a workload of the benchmark")]
_Speed = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
_Kind = Literal["tok_s", "total_tok_s"]
_KINDS: tuple[_Kind, ...] = get_args(_Kind)
Speeds = dict[_Kind, _Speed]


class ProofRecord(Model):
    """What one replica has proved, on one day."""

    recipe: str = _text(_NAME, "qwen3.6-35b-nvidia")
    date: str = _text("20[0-9]{2}-[01][0-9]-[0-3][0-9]", "'2026-11-28'")
    sparkwright: str = _text(_VERSION, "0.1.0")
    hardware: str = _text(_NAME, "gb10")
    machines: list[Machine] = Field(min_length=1, max_length=2, description="one for each Spark")
    model: str = _text(f"{_NAME}/{_NAME}@[0-9a-f]{{40}}", "OWNER/NAME@COMMIT")
    image: str = _text("[a-z0-9._/:-]+(@sha256:[0-9a-f]{64}|:[0-9a-f]{12})", "NAME@sha256:…")
    proved: int = Field(ge=1, le=1000, description="how many sentences were proved")
    rebooted: bool = Field(description="true if it served again after a reboot")
    figures: dict[_Workload, Speeds] = Field(
        default={}, description="speeds by workload, such as short: {tok_s: 83.9}"
    )


class RecordFile(Model):
    """The file of one owner."""

    records: list[ProofRecord] = Field(min_length=1, max_length=50, description="a list of records")

    def text(self) -> str:
        """Return the file."""
        return _HEADER + yaml.dump(self.model_dump(exclude_unset=True))


def figures(results: Path, replica: str, release: str) -> dict[str, Speeds]:
    """Return the speeds of a release by its newest benchmark; none where there is none."""
    for path in sorted(results.glob(f"{replica}-*.json"), reverse=True):
        known = json.loads(read_text(path, "a result of the benchmark", _MOST_BYTES) or "{}")
        if known.get("about", "").startswith(f"{replica}: {release} "):
            return {name: _speeds(each) for name, each in known["figures"].items() if _speeds(each)}
    return {}


def _speeds(found: dict[str, float]) -> Speeds:
    return {name: round(found[name], 1) for name in _KINDS if name in found}
