"""The engines of a seat as they are, how one starts, and their differences from the declared."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from sparkwright.common.errors import Difference
from sparkwright.common.part import Ask, Bounded, Part
from sparkwright.declared.recipe import questions
from sparkwright.declared.recipe.recipe import Answers
from sparkwright.plan.release.release import Release
from sparkwright.run.spark import SparkTarget

# The unit by which a head offers files to its worker.
SHARE = "fabric-share.socket"

# Log lines of our supervisor (files/host/engine) and of vLLM 0.20 to 0.33, in the order of a start,
# and the phases that they show.
_PHASES = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"^waiting for (.+)", "waiting for {}"),
        (r"Initializing a V1 LLM engine|Resolved architecture", "starting the engine"),
        (r"Starting to load model|Loading model from scratch", "loading weights"),
        # Its own loader, that of fastsafetensors, and others.
        (
            r"Loading safetensors (?:checkpoint shards|using [\w ]+):\s+(\d+)%",
            "loading weights {}%",
        ),
        (r"Loading drafter model", "loading the drafter"),
        (r"Model loading took (.+)", "weights loaded: {}"),
        (r"Dynamo bytecode transform|torch\.compile takes|Compiling a graph", "compiling"),
        (r"Available KV cache memory: (\S+ \S+)", "sizing the KV cache: {}"),
        (r"KV cache size: ([\d,]+ tokens)", "sizing the KV cache: {}"),
        (r"Autotuning process starts", "trying FlashInfer's kernels"),
        (r"Capturing CUDA graphs.*?(\d+)%", "capturing CUDA graphs {}%"),
        (r"Application startup complete", "ready"),
    )
)


class EngineUnit(Bounded):
    """One instance of `vllm@.service`; `status` is what its supervisor said last.

    While it is `starting`, systemd has a job for it, which may wait for Docker. Between two of
    systemd's restarts there is none.

    Attributes:
        outdated: systemd has read another version of its file.
        masked: it is not to be started, until the next boot at the latest.
        since: when it became active, in seconds since the epoch; 0 if never.
    """

    release: str
    active: str
    restarts: int
    enabled: bool
    outdated: bool
    starting: bool
    status: str
    since: int = 0
    masked: bool = False

    def missing(self, ranks: Iterable[str]) -> list[str]:
        """Return the Sparks of its group that its supervisor has missed for long (meeting.py)."""
        told = [each for each in self.status.split("; ") if each.startswith("missing for ")]
        return [name for name in ranks if any(f" min: {name} at " in each for each in told)]

    @property
    def ended(self) -> bool:
        """Tell whether it neither runs nor is about to, by a start or a restart of systemd's."""
        return self.active in ("inactive", "failed") and not self.starting

    @property
    def stopped(self) -> bool:
        """Tell whether it has ended and does not start at boot."""
        return self.ended and not self.enabled


def offer(own: SparkTarget, unit: EngineUnit | None, units: Iterable[EngineUnit | None]) -> str:
    """Return how a group serves without those whom a unit of it misses; "" while one serves.

    Who comes back while the others serve without it misses them, and waits for the next run.
    """
    lost = unit.missing(own.ranks) if unit else []
    serves = any(each and each.active == "active" for each in units)
    return own.offer(lost) if lost and not serves else ""


class EngineState(Part):
    """The engines of a seat.

    Attributes:
        current: the release that the link of that name leads to.
        last: the one that came to serve last.
        units: every instance that is loaded or enabled, by release.
        shares: the Spark offers its weights to a worker.
        switches: the releases to which a switch is under way.
        failed: the units of engines and switches that have failed.
        preferred: the release to which the door sends requests; None if it holds them back, or
            knows none.
        models, completion: the engine's answers, the latter to `questions.shortest`; None if it
            was not asked.
    """

    part: ClassVar = "engines"
    # The engine has a minute for its token.
    patience: ClassVar = 80

    current: str | None
    last: str | None = None
    units: dict[str, EngineUnit]
    shares: bool
    switches: tuple[str, ...]
    failed: tuple[str, ...]
    preferred: str | None
    models: tuple[str, ...] | None
    completion: str | None


def ask_release(release: Release) -> Ask[EngineState]:
    """Return the ask for the engines of a release's seat; on a head, for its answers as well."""
    asked: Mapping[str, Any] = {}
    if release.ranks.rank == 0:
        question = questions.shortest(release.recipe.answers, release.recipe.served_names[0])
        asked = {"path": question.path, "body": question.body}
    return EngineState.ask(root=release.place, release=release.id, **asked)


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


def engine_differences(
    state: EngineState, release: str | None, door: bool = False, on_demand: bool = False
) -> Iterator[Difference]:
    """Yield the differences of a Spark's engines from what is declared.

    Args:
        release: the one that should serve; None on an idle Spark.
        door: there is a door before it.
        on_demand: requests start it, so it may be stopped, and its door closed; it never
            boots but as a worker of a group, which waits for its head.
    """
    if state.current != release:
        yield Difference("current release", release or "none", state.current or "none")
    for name, unit in state.units.items():
        if name == release:
            if unit.active == "failed" if on_demand else unit.active != "active":
                yield Difference(f"vllm@{name}.service", "active", unit.active)
            if unit.enabled is (never := on_demand and door):
                words = ("not enabled", "enabled") if never else ("enabled", "not enabled")
                yield Difference(f"vllm@{name}.service", *words)
            if unit.masked:
                yield Difference(f"vllm@{name}.service", "to be started", "stopped by a person")
            if on_demand and state.last != name:
                yield Difference(f"vllm@{name}.service", "the last that served", f"{state.last}")
        elif not unit.stopped:
            boots = " and boots" if unit.enabled else ""
            yield Difference(f"vllm@{name}.service", "off", f"{unit.active}{boots}")
        if unit.outdated:
            yield Difference(f"vllm@{name}.service", "as in its file", "an older version")
    for name in state.failed:
        if name != f"vllm@{release}.service":
            yield Difference(name, "not failed", "failed")
    for name in state.switches:
        yield Difference("switch", "none under way", f"one to {name}")
    if door and state.preferred != release and not (on_demand and state.preferred is None):
        yield Difference("engine behind the door", f"{release}", state.preferred or "none")


def phase(lines: Iterable[str]) -> str | None:
    """Return the latest phase of a start in log lines, for people; None if there is none."""
    latest = None
    for line in lines:
        for pattern, text in _PHASES:
            if match := pattern.search(line):
                latest = text.format(*(each.rstrip(".") for each in match.groups()))
    return latest
