"""The deploys of a rollout's runs; each writes its results to a file, a line for each Spark."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

from pyinfra import host
from pyinfra.api import deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.operations import failing
from sparkwright.common.part import Part
from sparkwright.engine.deploy import take_turns
from sparkwright.engine.operations import serving, switch_settings
from sparkwright.engine.switch import Outcome, is_beside
from sparkwright.run.session import start_session
from sparkwright.run.state import read_now
from sparkwright.run.target import Target, seats, target


class Speed(Part):
    """The tokens a second of one answer; None, and what the engine says, where there is none."""

    part: ClassVar = "engine_api.speed"
    # Three answers have two minutes each.
    patience: ClassVar = 400

    speed: float | None
    said: str


@deploy("Rollout")
def intend(answers: str) -> None:
    """Write down what each replica should serve, and whether that fits beside what runs now."""
    for own in seats():
        if served := own.release:
            asked = switch_settings(own, served)
            memory = read_now(host, asked.ask_memory(own.place, served.id))
            fits = not own.replicas and is_beside(asked, memory)
            models = [*served.recipe.models]
            _write_answer(answers, own, release=served.id, models=models, fits=fits)


@deploy("Rollout")
def switch(answers: str, minimum_speed: float | None = None) -> None:
    """Have the chosen replicas serve their releases, which are on their Sparks."""
    start_session(lease=True)
    take_turns(name="Models that take turns", own=target())
    for own in seats():
        if own.release:
            switched(name="Serve the release", own=own, answers=answers, least=minimum_speed)


@operation()
def switched(own: Target, answers: str, least: float | None) -> Generator[PyinfraCommand]:
    """Serve the release, and measure it where that is asked for; write down the result."""
    release, outcome, speed = own.release, Outcome(), None
    assert release
    try:
        yield from serving._inner(release, switch_settings(own, release), own.peers, outcome)
        # What makes no tokens has no speed in tokens; what waits for its turn, none now.
        chats = release.recipe.answers == "chat" and not own.on_demand
        if least and outcome.served and own.is_head and chats:
            model = release.recipe.served_names[0]
            measured = read_now(host, Speed.ask(root=own.place, release=release.id, model=model))
            speed = measured.speed
            if speed is None:
                outcome.reason = f"no speed could be measured: {measured.said}"
            elif speed < least:
                found = f"found {speed} tokens a second in one stream"
                outcome.reason = f"{found}; expected at least {least:.15g}"
            if outcome.reason:
                yield failing(f"vllm@{release.id}: {outcome.reason}")
    finally:
        # A failed command ends the operation above.
        reason = outcome.reason or ("" if outcome.served else "it was not done")
        names = ("seconds", "gap", "beside")
        figures = {name: getattr(outcome.report, name, 0) for name in names}
        _write_answer(answers, own, reason=reason, speed=speed, **figures)


def _write_answer(answers: str, own: Target, **values: object) -> None:
    with Path(answers).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"replica": own.replica, "rank": own.rank, **values}) + "\n")
