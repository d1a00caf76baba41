"""The facts that a rollout reads."""

import shlex

from sparkwright.common.facts import HostFact
from sparkwright.rollout.serving import ServingState, parse_serving, serving_script


class ServingRelease(HostFact[ServingState | None]):
    """The release and engine that a Spark serves; None where it does not say."""

    momentary = True

    command = staticmethod(serving_script)
    parse = staticmethod(parse_serving)


class Speed(HostFact[str]):
    """Tokens a second of one stream, or why there is no such figure."""

    momentary = True

    default = str

    def command(self, root: str, release: str, model: str) -> str:
        program = f"{root}/bin/sparkwright-host"
        measure = shlex.join(["python3", "-B", program, "speed", root, release, model])
        return f"{measure} 2>&1; true"

    def parse(self, output: list[str]) -> str:
        return "\n".join(output).strip()
