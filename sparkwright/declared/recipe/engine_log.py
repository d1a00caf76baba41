"""The log level of an engine: a quieter one keeps what a start and its failures log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkwright.common.schema import shown
from sparkwright.declared.recipe.recipe import EngineSettings, Recipe

LEVEL = "VLLM_LOGGING_LEVEL"

# Without what a serving engine logs for ever: a line for each request, and every ten seconds its
# speeds, which /metrics has as well. vLLM's own level WARNING would hide the phases of a start from
# the run that waits for it, and from the doctor half of the lines by which it knows causes.
_QUIET_ARGS, _QUIET_ENV = {"disable-uvicorn-access-log": True}, {"VLLM_LOG_STATS_INTERVAL": "3600"}
_LEVELS: dict[str, dict[str, dict[str, Any]]] = {
    "DEBUG": {"env": {LEVEL: "DEBUG"}},
    "INFO": {},
    "WARNING": {"args": _QUIET_ARGS, "env": _QUIET_ENV},
}
# Levels that show the phases of a start.
_SHOWING_START = ("debug", "info", "trace")


def at_level(recipe: Recipe, level: str) -> Recipe:
    """Return a recipe whose engine logs as the group data say.

    Args:
        recipe: As it is for its number of Sparks, or for any.
        level: DEBUG, INFO (vLLM's own) or WARNING: no lines of requests and speeds.
    """
    changes = {kind: getattr(recipe, kind) | added for kind, added in _LEVELS[level].items()}
    return recipe.model_copy(update=changes)


def problems(settings: EngineSettings) -> Iterator[str]:
    """Yield the settings that would hide a start from the run that waits for it."""
    level, uvicorn = settings.env.get(LEVEL, "INFO"), settings.options.uvicorn_log_level
    remedy = (
        "remove it: it hides the start from the run and the doctor. To log less while serving, "
        'set log_level = "WARNING" in the group data'
    )
    if level.lower() not in _SHOWING_START:
        yield f"env.{LEVEL}: found {level}; {remedy}"
    if uvicorn.lower() not in _SHOWING_START:
        yield f"args.uvicorn-log-level: found {shown(uvicorn)}; {remedy}"
    if settings.env.get("VLLM_CONFIGURE_LOGGING", "1") == "0":
        yield f"env.VLLM_CONFIGURE_LOGGING: found 0; {remedy}"
